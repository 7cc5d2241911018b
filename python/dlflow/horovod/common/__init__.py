"""Framework-independent parts, under Horovod's names."""
