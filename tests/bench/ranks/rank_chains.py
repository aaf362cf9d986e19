"""The chains over several GPUs that are checked and timed, the data of each rank, and what a rank binds."""

import torch

COLUMNS, FACTORS = 8192, 4096  # of the sums, and of the layer's product on each rank


def draw(rank, shape, scale=1.0):
    """The same on every machine."""
    made = torch.randn(shape, generator=torch.Generator().manual_seed(1000 + rank)) * scale
    return made.to(torch.bfloat16)


def layer(rows, columns, factors, size):
    return f"row_parallel m={rows} n={columns} k={factors} ranks={size}"


def inputs_of(rank, rows, columns, factors):
    """a, w1, r, gamma of a rank; r and gamma are the same on all ranks."""
    return [
        draw(10 + rank, (rows, factors)),
        draw(20 + rank, (columns, factors), factors**-0.5),
        draw(30, (rows, columns)),
        draw(31, (columns,)),
    ]


def expected(size, rows, columns, factors):
    """h and its norm, of all ranks: what the chain says, in float64 between its casts."""
    total = torch.zeros(rows, columns)
    for rank in range(size):
        a, w, r, gamma = inputs_of(rank, rows, columns, factors)
        part = (a.double() @ w.double().T).to(torch.bfloat16)
        total = part.float() if rank == 0 else total + part.float()
    h = (total.to(torch.bfloat16).double() + r.double()).to(torch.bfloat16)
    x = h.double()
    norm = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * gamma.double()
    return h, norm.to(torch.bfloat16)


def between_attentions(hidden, width, gated, size, kind="bf16"):
    """Attention's output product, a gated FFN, and after each the sum over ranks, the residual and a norm.

    `kind` e4m3: products of codes, with a scale of each row of the left operand and of each channel; what is quantised
    is bf16 before, as servers have it.
    """
    import sinter

    b = sinter.Builder()
    a = b.input("bf16", (sinter.M, width))
    r = b.input("bf16", (sinter.M, hidden))

    def weight(rows, columns):
        made = b.constant(kind, (rows, columns))
        return made if kind == "bf16" else sinter.Scaled(made, b.constant("f32", (rows, 1)))

    def operand(x):
        return x if kind == "bf16" else sinter.quantize(x.cast("f32"))

    def product(x, w):
        return x @ w.T if kind == "bf16" else sinter.scaled_matmul(x, w)

    w_o, w_down, w_gate, w_up = (weight(*shape) for shape in shapes_between(hidden, width, gated))
    gammas = [b.constant("bf16", (hidden,)) for _ in range(2)]

    def summed(part, residual):
        total = sinter.all_reduce(part.cast("bf16"), size).cast("f32")
        return (total + residual.cast("f32")).cast("bf16")

    h = summed(product(operand(a), w_o), r)
    x = operand(sinter.rmsnorm(h, gammas[0]).cast("bf16"))
    c = operand((sinter.silu(product(x, w_gate)) * product(x, w_up)).cast("bf16"))
    h = summed(product(c, w_down), h)
    return b.finish(h, sinter.rmsnorm(h, gammas[1]).cast("bf16"))


def shapes_between(hidden, width, gated):
    """The shapes of w_o, w_down, w_gate, w_up."""
    return (hidden, width), (hidden, gated), (gated, hidden), (gated, hidden)


def quantized(x):
    """Codes of rows and their scales [rows, 1]."""
    wide = x.float()
    scale = wide.abs().amax(-1, keepdim=True).clamp(min=1e-10) / 448.0
    return (wide / scale).to(torch.float8_e4m3fn), scale


def weights_between(rank, hidden, width, gated, device, kind="bf16"):
    """w_o, w_down, w_gate, w_up of a rank, each with its scales if of codes, and both gammas of all."""
    generator = torch.Generator(device).manual_seed(100 + rank)
    made = []
    for rows, columns in shapes_between(hidden, width, gated):
        drawn = torch.randn((rows, columns), generator=generator, device=device) * columns**-0.5
        made += [drawn.to(torch.bfloat16)] if kind == "bf16" else quantized(drawn)
    return made + [draw(31 + i, (hidden,)).to(device) for i in range(2)]


def error_of(got, want):
    got, want = got.double().cpu(), want.double()
    return float((got - want).norm() / want.norm())


class Side:
    """One rank: its context, its group, what it has bound."""

    def __init__(self, context, group, device):
        self.context, self.group, self.device = context, group, device

    def sum(self, rows, residual=1):
        plan = self.context.prepare(
            f"all_reduce rows={rows} cols={COLUMNS} ranks={self.group.size} residual={residual}", m=rows
        )
        given = [draw(self.group.rank, (rows, COLUMNS))] + [draw(50 + self.group.rank, (rows, COLUMNS))] * residual
        return plan.bind(*[one.to(self.device) for one in given], group=self.group)

    def layer(self, rows, columns=COLUMNS, factors=FACTORS, choice="best"):
        plan = self.context.prepare(layer(rows, columns, factors, self.group.size), m=rows, choice=choice)
        given = inputs_of(self.group.rank, rows, columns, factors)
        return plan.bind(*[one.to(self.device) for one in given], group=self.group)
