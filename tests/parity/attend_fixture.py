"""What the scripts beside it share: inputs in `lra attend`'s format, and writing a fixture."""

import torch
from safetensors.torch import save_file


def draw(seed, lengths, heads, length, width, scale=1.0):
    """q, k, v [B,H,N,d], mask [B,N] (the first lengths[b] positions are tokens), grad_output (zero at padded positions)."""
    torch.manual_seed(seed)
    batch = len(lengths)
    q, k, v = (torch.randn(batch, heads, length, width) * s for s in (scale, scale, 1.0))
    mask = torch.arange(length) < torch.tensor(lengths).unsqueeze(1)
    grad_output = torch.randn(batch, heads, length, width) * mask[:, None, :, None]
    return q, k, v, mask, grad_output


def save(path, attention, peer, inputs, run, parameters=None, buffers=None):
    """Runs the peer, run(q, k, v, mask) -> [B,H,N,d], and stores inputs, output and the gradients of q, k, v and `parameters`."""
    q, k, v, mask, grad_output = inputs
    leaves = {"q": q, "k": k, "v": v} | {f"param.{name}": t for name, t in (parameters or {}).items()}
    leaves = {name: leaf.detach().clone().requires_grad_() for name, leaf in leaves.items()}
    given = {name.removeprefix("param."): leaf for name, leaf in leaves.items() if name.startswith("param.")}
    output = run(leaves["q"], leaves["k"], leaves["v"], mask, **given)
    assert output.dtype == torch.float64 and torch.isfinite(output).all()
    gradients = torch.autograd.grad(output, list(leaves.values()), grad_output)
    tensors = {name: leaf.detach() for name, leaf in leaves.items()}
    tensors |= {f"param.{name}": t for name, t in (buffers or {}).items()}
    tensors |= {"mask": mask, "grad_output": grad_output, "expected.output": output.detach()}
    tensors |= {f"expected.grad.{name}": gradient for name, gradient in zip(leaves, gradients)}
    tensors = {name: t.contiguous() for name, t in tensors.items()}
    save_file(tensors, path, metadata={"attention": attention, "peer": peer})
    print(path.name, attention, f"{sum(t.numel() * t.element_size() for t in tensors.values()) / 1024:.0f} KiB")
