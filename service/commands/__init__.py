"""The commands besides `serve`, a file each."""
