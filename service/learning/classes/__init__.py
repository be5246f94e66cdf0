"""From binary learners to labels: two classes, or several in one of three ways. `strategies.py` lists them."""
