"""The driver of training: hold-out, warm starts, restarts, progress, interruption, status and history."""
