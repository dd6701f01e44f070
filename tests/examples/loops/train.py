"""
A trainer that reads the run of another program: a linear probe on its features, with each sample's label in the
metadata.
"""

import sys

import offramp
import torch

torch.manual_seed(0)
probe = torch.nn.Linear(16, 2)
optimizer = torch.optim.Adam(probe.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(offramp.Dataset(sys.argv[1], wait_for_run=60), batch_size=32)

for batch in loader:  # each sample of the run once
    scores = probe(batch["features"])
    loss = torch.nn.functional.cross_entropy(scores, batch["metadata"]["label"])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(len(batch["key"]), f"{loss.item():.3f}")
