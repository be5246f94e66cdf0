"""The figures, a module for each kind. Every `measure` yields figures as it gets them."""
