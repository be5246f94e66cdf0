"""`novikoff top`: the fleet in a terminal, as it learns. The command is in command.py."""
