"""The models of the benchmark by name: (layers, batch) -> (module, inputs), random weights in float32 on the default device.

Extents are those of the published configurations; `layers` None keeps their depth. What a machine's transformers, timm or diffusers
lacks raises ImportError or AttributeError, which the benchmark tells.
"""

import torch
from torch import nn

from decoder import decoder

DEPTHS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers", "encoder_layers", "decoder_layers")


def ids(*shape, below=1000):
    return torch.randint(0, below, shape)


class First(nn.Module):
    """The first tensor that a model gives; inputs by name, and fixed arguments."""

    def __init__(self, model, names=None, **fixed):
        super().__init__()
        self.model, self.names, self.fixed = model, names, fixed

    def forward(self, *inputs):
        given = dict(zip(self.names, inputs)) if self.names else {}
        result = self.model(*(() if self.names else inputs), **given, **self.fixed)
        for name in ("logits", "last_hidden_state", "sample", "pred_masks"):
            if getattr(result, name, None) is not None:
                return getattr(result, name)
        return result[0] if isinstance(result, (tuple, list)) else result


def hugging_face(name, model, layers, **sizes):
    import transformers

    config = getattr(transformers, "Gemma3TextConfig" if name == "Gemma3" else f"{name}Config")(**sizes)
    for field in DEPTHS:
        if layers is not None and isinstance(getattr(config, field, None), int):
            try:
                setattr(config, field, min(layers, getattr(config, field)))
            except (AttributeError, NotImplementedError):  # one name for another
                pass
    if isinstance(vars(config).get("layer_types"), list):
        config.layer_types = config.layer_types[: config.num_hidden_layers]
    if hasattr(config, "use_cache"):
        config.use_cache = False
    return getattr(transformers, f"{name}{model}")(config)


def language(name, tokens=512, **sizes):
    def make(layers, batch):
        fixed = {} if name.startswith("Mamba") else {"use_cache": False}
        model = hugging_face(name, "ForCausalLM", layers, **sizes)
        return First(model, ["input_ids"], **fixed), (ids(batch, tokens),)

    return make


def encoder(name, tokens=128, **sizes):
    def make(layers, batch):
        model = First(hugging_face(name, "Model", layers, **sizes), ["input_ids", "attention_mask"])
        return model, (ids(batch, tokens), torch.ones(batch, tokens, dtype=torch.long))

    return make


def gpt2(layers, batch):
    return First(hugging_face("GPT2", "LMHeadModel", layers), ["input_ids"], use_cache=False), (ids(batch, 128),)


def images(name, channels_last=True, side=224, **more):
    def make(layers, batch):
        import timm

        depth = {} if layers is None or "depth" not in more else {"depth": layers}
        model, x = timm.create_model(name, **depth), torch.randn(batch, 3, side, side)
        return model, (x.contiguous(memory_format=torch.channels_last) if channels_last else x,)

    make.channels_last = channels_last
    return make


def t5(layers, batch):
    model = hugging_face("T5", "ForConditionalGeneration", layers)
    return First(model, ["input_ids", "decoder_input_ids"], use_cache=False), (ids(batch, 128), ids(batch, 64))


def whisper(part):
    def make(layers, batch):
        sizes = dict(d_model=768, encoder_attention_heads=12, decoder_attention_heads=12, encoder_ffn_dim=3072, decoder_ffn_dim=3072)
        model = hugging_face("Whisper", "Model", 12 if layers is None else layers, encoder_layers=12, decoder_layers=12, **sizes)
        if part == "encoder":
            return First(model.encoder, ["input_features"]), (torch.randn(batch, 80, 3000),)
        names = ["input_ids", "encoder_hidden_states"]
        return First(model.decoder, names, use_cache=False), (ids(batch, 64), torch.randn(batch, 1500, 768))

    return make


def of_images(name, model, side, **sizes):
    def make(layers, batch):
        return First(hugging_face(name, model, layers, **sizes), ["pixel_values"]), (torch.randn(batch, 3, side, side),)

    return make


def speech(layers, batch):
    return First(hugging_face("Wav2Vec2", "Model", layers), ["input_values"]), (torch.randn(batch, 80000),)


def clip(layers, batch):
    from transformers import CLIPConfig, CLIPModel

    depth = {} if layers is None else {"num_hidden_layers": layers}
    model = CLIPModel(CLIPConfig(text_config=depth, vision_config=depth))
    names = ["input_ids", "pixel_values", "attention_mask"]
    return Embeddings(model, names), (ids(batch, 77), torch.randn(batch, 3, 224, 224), torch.ones(batch, 77, dtype=torch.long))


class Embeddings(First):
    def forward(self, *inputs):
        return self.model(**dict(zip(self.names, inputs))).image_embeds


def sam(layers, batch):
    from transformers import SamConfig, SamModel

    vision = {} if layers is None else dict(num_hidden_layers=layers, global_attn_indexes=[layers - 1])
    model = SamModel(SamConfig(vision_config=vision))
    inputs = (torch.randn(batch, 3, 1024, 1024), torch.rand(batch, 1, 1, 2) * 1000)
    return First(model, ["pixel_values", "input_points"], multimask_output=True), inputs


def detr(layers, batch):
    from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig

    depth = {} if layers is None else dict(encoder_layers=layers, decoder_layers=layers)
    backbone = ResNetConfig(out_features=["stage4"])
    config = DetrConfig(use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=backbone, **depth)
    return First(DetrForObjectDetection(config), ["pixel_values"]), (torch.randn(batch, 3, 512, 512),)


class Recommender(nn.Module):
    """DLRM: 26 bags of rows and a small net, all pairs of them, a net."""

    def __init__(self):
        super().__init__()
        net = lambda *sizes: [layer for a, b in zip(sizes, sizes[1:]) for layer in (nn.Linear(a, b), nn.ReLU())]
        self.bags = nn.ModuleList(nn.EmbeddingBag(1000, 128, mode="sum") for _ in range(26))
        self.bottom = nn.Sequential(*net(13, 512, 256, 128))
        self.top = nn.Sequential(*net(128 + 27 * 26 // 2, 1024, 1024, 512, 256), nn.Linear(256, 1), nn.Sigmoid())
        self.register_buffer("pairs", torch.tril_indices(27, 27, -1))

    def forward(self, dense, rows, offsets):
        x = self.bottom(dense)
        z = torch.stack([x, *(bag(rows[i], offsets[i]) for i, bag in enumerate(self.bags))], 1)
        return self.top(torch.cat([x, torch.bmm(z, z.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]], 1))


def dlrm(layers, batch):
    rows = batch * 64
    return Recommender(), (torch.randn(rows, 13), ids(26, rows), torch.arange(rows).repeat(26, 1))


class Reader(nn.Module):
    """CRNN: convolutions over a line of text, LSTMs along it."""

    def __init__(self):
        super().__init__()
        layers, before = [], 1
        for channels, pool in ((64, (2, 2)), (128, (2, 2)), (256, None), (256, (2, 1)), (512, None), (512, (2, 1))):
            layers += [nn.Conv2d(before, channels, 3, 1, 1), nn.BatchNorm2d(channels), nn.ReLU()]
            layers += [nn.MaxPool2d(pool, pool)] if pool else []
            before = channels
        self.images = nn.Sequential(*layers, nn.Conv2d(512, 512, 2), nn.ReLU())
        self.line, self.out = nn.LSTM(512, 256, 2, bidirectional=True), nn.Linear(512, 6625)

    def forward(self, x):
        return torch.log_softmax(self.out(self.line(self.images(x).squeeze(2).permute(2, 0, 1))[0]), -1)


def crnn(layers, batch):
    return Reader(), (torch.randn(batch, 1, 32, 100),)


def diffusion(name, inputs, **sizes):
    def make(layers, batch):
        import diffusers

        depth = {} if layers is None else {key: min(layers, value) for key, value in sizes.items() if key.endswith("layers")}
        given = inputs(batch)
        return First(getattr(diffusers, name)(**{**sizes, **depth}), list(given)), tuple(given.values())

    return make


UNET = diffusion(
    "UNet2DConditionModel",
    lambda b: dict(sample=torch.randn(b, 4, 64, 64), timestep=torch.full((b,), 10), encoder_hidden_states=torch.randn(b, 77, 768)),
    **dict(sample_size=64, layers_per_block=2, block_out_channels=(320, 640), cross_attention_dim=768, attention_head_dim=8),
    **dict(down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D")),
)
DIT = diffusion(
    "DiTTransformer2DModel",
    lambda b: dict(hidden_states=torch.randn(b, 4, 32, 32), timestep=ids(b), class_labels=ids(b)),
    **dict(num_attention_heads=16, attention_head_dim=72, in_channels=4, out_channels=8, num_layers=28, sample_size=32, patch_size=2),
)
FLUX = diffusion(
    "FluxTransformer2DModel",
    lambda b: dict(
        hidden_states=torch.randn(b, 1024, 64), encoder_hidden_states=torch.randn(b, 512, 4096), pooled_projections=torch.randn(b, 768),
        timestep=torch.ones(b), img_ids=torch.randn(1024, 3), txt_ids=torch.randn(512, 3),
    ),
    **dict(num_layers=2, num_single_layers=2, attention_head_dim=128, num_attention_heads=24, guidance_embeds=False),
)

LLAMA = dict(hidden_size=4096, intermediate_size=14336, num_attention_heads=32, num_key_value_heads=8, vocab_size=128256, rope_theta=5e5)
QWEN = dict(hidden_size=4096, intermediate_size=12288, num_attention_heads=32, num_key_value_heads=8, head_dim=128, vocab_size=151936)
EXPERTS = dict(num_experts=128, hidden_size=2048, moe_intermediate_size=768, num_attention_heads=32, num_key_value_heads=4, head_dim=128)
DEEPSEEK = dict(
    first_k_dense_replace=1, n_routed_experts=16, n_group=4, topk_group=2, hidden_size=2048, intermediate_size=4096, moe_intermediate_size=512,
    num_attention_heads=16, num_key_value_heads=16, vocab_size=32000,
)
GEMMA2 = dict(hidden_size=2304, intermediate_size=9216, num_attention_heads=8, num_key_value_heads=4, head_dim=256)
GEMMA3 = dict(hidden_size=1152, intermediate_size=6912, num_attention_heads=4, num_key_value_heads=1, head_dim=256, vocab_size=262144)

#: By name: what makes the model, and its serving batch.
MODELS = {
    "bert_base": (encoder("Bert"), 8),
    "roberta_base": (encoder("Roberta", vocab_size=50265), 8),
    "distilbert": (encoder("DistilBert"), 8),
    "modernbert": (encoder("ModernBert"), 8),
    "gpt2": (gpt2, 8),
    "t5_small": (t5, 8),
    "llama3_8b": (language("Llama", **LLAMA), 4),
    "llama3_8b_decode": (lambda layers, batch: decoder(layers, batch, 1, past=511), 32),
    "qwen3_8b": (language("Qwen3", **QWEN), 4),
    "mistral_7b": (language("Mistral"), 4),
    "gemma2_2b": (language("Gemma2", **GEMMA2), 4),
    "gemma3_1b": (language("Gemma3", **GEMMA3), 4),
    "phi3_mini": (language("Phi3", vocab_size=32064, pad_token_id=0), 4),
    "mixtral": (language("Mixtral"), 4),
    "qwen3_moe": (language("Qwen3Moe", **EXPERTS), 4),
    "deepseek_v3": (language("DeepseekV3", **DEEPSEEK), 4),
    "mamba": (language("Mamba", 64), 4),
    # Inductor cannot compile scans of more than 128 values after a broadcast (pytorch#180221), which chunks of 256 are.
    "mamba2": (language("Mamba2", 256, hidden_size=1024, num_heads=32, head_dim=64, chunk_size=128), 4),
    "whisper_encoder": (whisper("encoder"), 8),
    "whisper_decoder": (whisper("decoder"), 8),
    "wav2vec2": (speech, 4),
    "clip": (clip, 32),
    "sam_b": (sam, 2),
    "dinov2_b": (of_images("Dinov2", "Model", 224), 16),
    "segformer": (of_images("Segformer", "ForSemanticSegmentation", 512), 4),
    "detr": (detr, 2),
    "vit_b16": (images("vit_base_patch16_224", False, depth=12), 32),
    "swin_t": (images("swin_tiny_patch4_window7_224", False), 32),
    "convnext_t": (images("convnext_tiny"), 32),
    "resnet50": (images("resnet50"), 32),
    "resnet50_nchw": (images("resnet50", False), 32),
    "densenet121": (images("densenet121"), 32),
    "efficientnet_b0": (images("efficientnet_b0"), 32),
    "mobilenetv3_l": (images("mobilenetv3_large_100"), 32),
    "regnety_032": (images("regnety_032"), 32),
    "dlrm": (dlrm, 32),
    "crnn": (crnn, 16),
    "sd_unet": (UNET, 2),
    "dit_xl": (DIT, 8),
    "flux": (FLUX, 1),
}

#: By name, as above: of no published list.
MORE_MODELS = {
    "llama3_8b_decode_1k": (lambda layers, batch: decoder(layers, batch, 1, past=1023), 32),
    "llama3_8b_decode_masked": (lambda layers, batch: decoder(layers, batch, 1, past=1023, masked=True), 32),
}
