#!/usr/bin/env python3
"""The structure of ResNet-50 from a module tree of stand-ins, and the plans of its blocks for an H200, without torch or a GPU."""

import os
import sys
import unittest
from types import SimpleNamespace

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "bindings", "python"))

import network  # noqa: E402


def conv(inputs, outputs, taps, stride=1):
    return SimpleNamespace(in_channels=inputs, out_channels=outputs, kernel_size=(taps, taps), stride=(stride, stride),
                           padding=(taps // 2, taps // 2), dilation=(1, 1), groups=1)


def bottleneck(inputs, width, stride):
    shortcut = inputs != 4 * width or stride != 1
    downsample = [conv(inputs, 4 * width, 1, stride), "norm"] if shortcut else None
    return SimpleNamespace(conv1=conv(inputs, width, 1), bn1="norm", conv2=conv(width, width, 3, stride), bn2="norm",
                           conv3=conv(width, 4 * width, 1), bn3="norm", downsample=downsample)


def resnet50():
    model, inputs = SimpleNamespace(conv1=conv(3, 64, 7, 2), bn1="norm"), 64
    for i, (count, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512))):
        blocks = []
        for j in range(count):
            blocks.append(bottleneck(inputs, width, 2 if i > 0 and j == 0 else 1))
            inputs = 4 * width
        setattr(model, f"layer{i + 1}", blocks)
    return model


class NetworkTest(unittest.TestCase):
    def test_has_the_convolutions_of_resnet50(self):
        stages = network.stages_of(resnet50())
        self.assertEqual([len(blocks) for blocks in stages], [3, 4, 6, 3])
        layers = [layer for blocks in stages for block in blocks for layer in block.all_layers()]
        self.assertEqual(len(layers), 52)
        self.assertEqual(sum(l.taps**2 * l.inputs * l.outputs for l in layers), 23445504)
        self.assertEqual(len({block.key for blocks in stages for block in blocks}), 8)
        first = stages[1][0]
        self.assertEqual([l.stride for l in first.all_layers()], [1, 2, 2, 1])
        self.assertEqual(first.all_layers()[2], first.shortcut)

    def test_refuses_what_no_chain_here_says(self):
        for name, value in (("groups", 32), ("dilation", (2, 2)), ("padding", (0, 0)), ("stride", (1, 2))):
            module = conv(64, 64, 3)
            setattr(module, name, value)
            with self.assertRaisesRegex(ValueError, name):
                network.layer_of(module)

    def test_folds_each_norm_once(self):
        folded = []
        model = resnet50()
        for i in (1, 2, 3, 4):
            for block in getattr(model, f"layer{i}"):
                if block.downsample:
                    block.downsample = SimpleNamespace(**{"0": block.downsample[0], "1": "norm"})
        network.fold(model, lambda c, norm: folded.append((c, norm)) or c, lambda: "nothing")
        self.assertEqual(len(folded), 53)
        self.assertEqual({norm for _, norm in folded}, {"norm"})
        self.assertEqual(model.layer1[0].bn3, "nothing")
        self.assertEqual(getattr(model.layer1[0].downsample, "1"), "nothing")


class Tensor:
    """A shape instead of a tensor."""

    def __init__(self, *shape):
        self.shape = tuple(shape)

    def permute(self, *axes):
        return Tensor(*[self.shape[a] for a in axes])

    def detach(self):
        return self

    def is_contiguous(self):
        return True


class Context:
    """Its plans check the shapes that they are called with, and count the calls."""

    def __init__(self):
        self.calls, self.early = 0, []

    def prepare_many(self, chains, ms):
        return [self.plan(chain, m) for chain, m in zip(chains, ms)]

    def plan(self, chain, m):
        def call(*inputs, pdl):
            self.calls += 1
            self.early.append(pdl)
            assert [t.shape for t in inputs] == [info.shape for info in chain.inputs(m)]
            return Tensor(*chain.outputs(m)[0].shape)

        return call


@unittest.skipUnless(os.environ.get("LIBSINTER_PATH"), "no library")
class SinterNetworkTest(unittest.TestCase):
    def test_hands_each_chain_what_it_takes(self):
        import resnet

        stages = network.stages_of(resnet50())
        for blocks in stages:
            for layer in (layer for block in blocks for layer in block.all_layers()):
                layer.module.weight = Tensor(layer.outputs, layer.inputs, layer.taps, layer.taps)
                layer.module.bias = Tensor(layer.outputs)
        for form, calls, plans in (("layers", 52, 23), ("blocks", 16, 8), ("stages", 4, 4)):
            context = Context()
            run = resnet.SinterNetwork(None, context, stages, form, 2)
            self.assertEqual(run(Tensor(2, 64, 56, 56), pdl=True).shape, (2, 2048, 7, 7))
            self.assertEqual((context.calls, len(run.plans)), (calls, plans), form)
            self.assertEqual(context.early, [False] + [True] * (calls - 1))


@unittest.skipUnless(os.environ.get("LIBSINTER_PATH"), "no library")
class ChainsTest(unittest.TestCase):
    def test_a_block_runs_in_product_kernels_alone(self):
        import chains
        import sinter

        block = network.stages_of(resnet50())[1][0]
        self.assertEqual(chains.height_behind(block, 56), 28)
        chain = chains.blocks_chain([block], 56)
        self.assertEqual(chain.input_count, 9)
        kernels = sinter.Context(target="h200", cache=False).prepare(chain, 1).to_json()["kernels"]
        self.assertLessEqual(len(kernels), 4)
        self.assertEqual({kernel["family"] for kernel in kernels}, {"product"})
        self.assertEqual(kernels[-1]["sequence"].get("sum_activation"), "relu")

    def test_a_convolution_with_a_residual_is_one_kernel(self):
        import chains
        import sinter

        last = network.stages_of(resnet50())[3][1].layers[-1]
        chain = chains.layer_chain(last, 7, residual=True)
        plan = sinter.Context(target="h200", cache=False).prepare(chain, 8)
        self.assertEqual(plan.kernel_count, 1)
        self.assertEqual(chain.outputs(8)[0].shape, (8, 7, 7, 2048))


if __name__ == "__main__":
    unittest.main()
