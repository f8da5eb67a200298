"""Settings, the command line, signals, workers, logs and the embedded Redis."""
