"""How many test pairs of prepared Retrieval data the lengths of the two texts tell apart.

python3 lengths.py DIR/retrieval: a table of 200 classes of the difference of the lengths, learned
on train, its accuracy on test. Needs torch.
"""
import json
import sys

import torch

TYPES = {"I64": torch.int64, "I32": torch.int32, "U64": torch.int64, "U32": torch.int32}


def differences_and_labels(path):
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header, data = json.loads(file.read(size)), file.read()

    def tensor(name):
        begin, end = header[name]["data_offsets"]
        return torch.frombuffer(bytearray(data[begin:end]), dtype=TYPES[header[name]["dtype"]])

    lengths = tensor("offsets").long().diff().view(-1, 2)
    return (lengths[:, 0] - lengths[:, 1]).float(), tensor("labels").long()


folder = sys.argv[1]
seen, labels = differences_and_labels(folder + "/train.safetensors")
tested, expected = differences_and_labels(folder + "/test.safetensors")
edges = seen.quantile(torch.linspace(0, 1, 201)).unique()
votes = torch.zeros(len(edges) + 1).index_add(0, torch.bucketize(seen, edges), 2.0 * labels - 1)
told = (votes > 0)[torch.bucketize(tested, edges)].long()
print(f"{100 * (told == expected).double().mean():.2f} % of {len(expected)} pairs")
