"""dlflow in Python: `dlflow.runtime` has collectives between processes, `dlflow.torch` is a backend of torch.distributed."""
