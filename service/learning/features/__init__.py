"""From what a client sends to a vector. `contract.py` says what a kind of features promises, `kinds.py` lists them."""
