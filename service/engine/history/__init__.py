"""What models were: older versions made again from the journal, and going back to them."""
