"""What does not depend on a framework, under the names that Horovod gives it."""
