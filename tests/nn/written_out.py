"""The recurrence once more, node by node and lag by lag, with nothing shared with the library."""

import torch


def recur(states, residuals, phi, theta, backbone, num_recurrences, batch=None):
    """Runs the equation with explicit indices; coefficients are [B, p] and [B, q]."""
    length, num_nodes, _ = states.shape
    f = {t: states[t] for t in range(length)}
    d = {t: residuals[t] for t in range(length)}
    for t in range(length, length + num_recurrences):
        d[t] = backbone(f[t - 1])
        rows = []
        for node in range(num_nodes):
            graph = 0 if batch is None else int(batch[node])
            row = d[t][node]
            for i in range(1, phi.size(1) + 1):
                row = row + phi[graph, i - 1] * f[t - i][node]
            for j in range(1, theta.size(1) + 1):
                row = row + theta[graph, j - 1] * d[t - j][node]
            rows.append(row)
        f[t] = torch.stack(rows)
    new = range(length, length + num_recurrences)
    return torch.stack([f[t] for t in new]), torch.stack([d[t] for t in new])
