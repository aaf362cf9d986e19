"""The convolutions of stages 1 to 4 of a ResNet of bottlenecks, from a module tree as torchvision and timm build it."""

from typing import Any, List, NamedTuple, Optional, Tuple


class Layer(NamedTuple):
    """A square convolution with a bias: its batch norm is folded into both."""

    module: Any  # its weight is [out, in, taps, taps]
    inputs: int
    outputs: int
    taps: int
    stride: int

    @property
    def key(self):
        return (self.inputs, self.outputs, self.taps, self.stride)


class Block(NamedTuple):
    """relu(last(relu(.. relu(first(x)))) + shortcut(x)); without a shortcut x itself is added."""

    layers: Tuple[Layer, ...]
    shortcut: Optional[Layer]

    @property
    def key(self):
        return (tuple(layer.key for layer in self.layers), self.shortcut.key if self.shortcut else None)

    def all_layers(self):
        """The order in which a block's chain takes their weights."""
        return (*self.layers[:-1], *([self.shortcut] if self.shortcut else []), self.layers[-1])


def _one(module, name):
    """The number that both axes have."""
    value = getattr(module, name)
    axes = set(value) if isinstance(value, (tuple, list)) else {value}
    if len(axes) != 1:
        raise ValueError(f"{name} is {value}, must be one number for both axes")
    return axes.pop()


def layer_of(conv) -> Layer:
    for name in ("groups", "dilation"):
        if _one(conv, name) != 1:
            raise ValueError(f"{name} is {getattr(conv, name)}, must be 1")
    taps = _one(conv, "kernel_size")
    if _one(conv, "padding") != taps // 2:
        raise ValueError(f"padding is {conv.padding}, must be {taps // 2}, half of the taps")
    return Layer(conv, conv.in_channels, conv.out_channels, taps, _one(conv, "stride"))


def _block_of(module) -> Block:
    layers = tuple(layer_of(getattr(module, f"conv{i}")) for i in (1, 2, 3))
    shortcut = getattr(module, "downsample", None)
    return Block(layers, None if shortcut is None else layer_of(shortcut[0]))


def stages_of(model) -> List[List[Block]]:
    return [[_block_of(block) for block in getattr(model, f"layer{i}")] for i in (1, 2, 3, 4)]


def fold(model, fuse, identity):
    """Folds each batch norm into its convolution, in place: `fuse`(conv, norm) is the new one, `identity`() stands for the norm."""
    pairs = [(model, "conv1", "bn1")]
    for i in (1, 2, 3, 4):
        for block in getattr(model, f"layer{i}"):
            pairs += [(block, f"conv{j}", f"bn{j}") for j in (1, 2, 3)]
            if getattr(block, "downsample", None) is not None:
                pairs.append((block.downsample, "0", "1"))
    for parent, conv, norm in pairs:
        setattr(parent, conv, fuse(getattr(parent, conv), getattr(parent, norm)))
        setattr(parent, norm, identity())
