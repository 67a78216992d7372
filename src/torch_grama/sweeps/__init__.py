"""Many runs of one kind: hyper-parameter sweeps and the experiments of the paper."""
