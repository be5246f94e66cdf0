"""Novikoff: online learning over HTTP, with a journal that loses nothing."""
