"""`auto`: a panel of experts that all learn from every reveal, and their weighted vote. `panels.py` lists them."""
