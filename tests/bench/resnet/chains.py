"""Blocks of a ResNet as Sinter chains: images [M, height, width, channels] in, constant filters (OHWI) and biases, images out."""

import sinter


def _layer(b, x, layer, residual=None, relu=True):
    w = b.constant("bf16", (layer.outputs, layer.taps, layer.taps, layer.inputs))
    bias = b.constant("bf16", (layer.outputs,))
    y = sinter.conv2d(x, w, stride=layer.stride, padding=layer.taps // 2) + bias
    y = y if residual is None else y + residual
    return (sinter.relu(y) if relu else y).cast("bf16")


def _images(b, layer, height):
    return b.input("bf16", (sinter.M, height, height, layer.inputs))


def layer_chain(layer, height, relu=True, residual=False):
    """One convolution; with a residual the images that it adds are the last input."""
    b = sinter.Builder()
    x = _images(b, layer, height)
    if not residual:
        return b.finish(_layer(b, x, layer, relu=relu))
    side = (height - 1) // layer.stride + 1
    w = b.constant("bf16", (layer.outputs, layer.taps, layer.taps, layer.inputs))
    bias = b.constant("bf16", (layer.outputs,))
    r = b.input("bf16", (sinter.M, side, side, layer.outputs))
    y = sinter.conv2d(x, w, stride=layer.stride, padding=layer.taps // 2) + bias + r
    return b.finish(sinter.relu(y).cast("bf16"))


def _block(b, x, block):
    y = x
    for layer in block.layers[:-1]:
        y = _layer(b, y, layer)
    r = _layer(b, x, block.shortcut, relu=False) if block.shortcut else x
    return _layer(b, y, block.layers[-1], r)


def blocks_chain(blocks, height):
    """Consecutive blocks; the constants of each in the order of its all_layers()."""
    b = sinter.Builder()
    y = _images(b, blocks[0].layers[0], height)
    for block in blocks:
        y = _block(b, y, block)
    return b.finish(y)


def height_behind(block, height):
    """Rows of an image that a block makes of images of `height` rows."""
    for layer in block.layers:
        height = (height - 1) // layer.stride + 1
    return height
