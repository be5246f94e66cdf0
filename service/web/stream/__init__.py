"""POST /stream: many rounds in one request, as lines of JSON or columns of Arrow."""
