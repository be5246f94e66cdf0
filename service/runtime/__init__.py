"""What every long-running process needs: logs, child processes, cooperative work on the event loop, memory."""
