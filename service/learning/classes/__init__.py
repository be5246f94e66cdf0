"""From binary learners to labels: two classes, or several by one of three strategies. `strategies.py` lists them."""
