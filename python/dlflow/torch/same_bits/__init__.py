"""Training with the same bits on any number of processes: `dlflow.torch.exact`. docs/user/pytorch-exact.md."""
