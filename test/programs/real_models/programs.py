"""Programs as people write them, each with one line more, which compiles its model."""

import tempfile
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn, Tensor

# What a program does to a model before it uses it: `model.compile()`, or `torch.compile(model)`, which gives another one.
Prepare = Callable[..., Any]


def _tokens(*shape: int) -> Tensor:
    return torch.randint(0, 128, shape)


def _gpt2() -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    dropouts = {f"{name}_pdrop": 0.0 for name in ("resid", "embd", "attn")}
    return GPT2LMHeadModel(GPT2Config(vocab_size=128, n_positions=32, n_embd=32, n_layer=2, n_head=2, **dropouts))


def trainer(prepare: Prepare) -> list[Tensor]:
    """transformers.Trainer"""
    from transformers import Trainer, TrainingArguments

    model = _gpt2()
    data = [{"input_ids": row, "labels": row} for row in _tokens(160, 16)]
    prepare(model, in_place=True)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=40,
            per_device_train_batch_size=4,
            report_to=[],
            disable_tqdm=True,
            save_strategy="no",
            logging_strategy="no",
        )
        loss = Trainer(model=model, args=arguments, train_dataset=data).train().training_loss
    return [torch.tensor(loss), *model.parameters()]


def accelerated(prepare: Prepare) -> list[Tensor]:
    """accelerate, with gradient accumulation and autocast"""
    from accelerate import Accelerator

    accelerator = Accelerator(gradient_accumulation_steps=2)
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    model, optimizer = accelerator.prepare(model, optimizer)
    model = prepare(model)
    losses = []
    for _ in range(40):
        x, y = torch.randn(8, 16).to(accelerator.device), torch.randn(8, 4).to(accelerator.device)
        with accelerator.accumulate(model):
            with torch.autocast("mps", torch.float16):
                loss = F.mse_loss(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.detach())
    return [*losses, *model.parameters()]


def timm_training(prepare: Prepare) -> list[Tensor]:
    """timm's mixup and averaged weights"""
    import timm
    from timm.data import Mixup
    from timm.loss import SoftTargetCrossEntropy
    from timm.utils import ModelEmaV2

    model = timm.create_model("test_resnet", num_classes=4).to("mps")
    mixup, loss_of = Mixup(mixup_alpha=0.2, num_classes=4), SoftTargetCrossEntropy()
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    average = ModelEmaV2(model, decay=0.9)
    compiled = prepare(model)
    losses = []
    for _ in range(24):
        # Mixup makes its targets on the CPU's default device.
        x, y = mixup(torch.randn(4, 3, 32, 32), torch.randint(0, 4, (4,)))
        loss = loss_of(compiled(x.to("mps")), y.to("mps"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update(model)
        losses.append(loss.detach())
    return [*losses, *average.module.parameters()]


@torch.no_grad()
def served_encoder(prepare: Prepare) -> list[Tensor]:
    """an encoder that serves batches of changing sizes"""
    from transformers import BertConfig, BertModel

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    model = prepare(BertModel(BertConfig(vocab_size=128, **sizes)).to("mps").eval())
    batches = [(1, 2, 4, 8)[i] for i in torch.randint(0, 4, (100,))]
    return [model(_tokens(size, 16).to("mps")).pooler_output.clone() for size in batches]


def reinforcement(prepare: Prepare) -> list[Tensor]:
    """a policy that acts and learns in turn"""
    policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2)).to("mps")
    optimizer = torch.optim.Adam(policy.parameters(), 1e-2)
    policy = prepare(policy)
    place, goal = torch.zeros(2), torch.ones(2)
    returns = []
    for _ in range(12):
        seen: list[Tensor] = []
        done: list[int] = []
        rewards: list[float] = []
        for _ in range(8):
            state = torch.cat([place, goal - place])
            with torch.no_grad():
                action = int(policy(state.to("mps")[None]).cpu().argmax())
            place = place + torch.tensor([[0.1, 0.0], [0.0, 0.1]])[action]
            seen.append(state)
            done.append(action)
            rewards.append(-float((goal - place).norm()))
        weights = torch.tensor(rewards).cumsum(0).flip(0)
        chosen = F.log_softmax(policy(torch.stack(seen).to("mps")), -1)
        loss = -(chosen.gather(1, torch.tensor(done, device="mps")[:, None])[:, 0] * weights.to("mps")).mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        returns.append(weights[0])
    return [*returns, *policy.parameters()]


def gan(prepare: Prepare) -> list[Tensor]:
    """a generator and a discriminator with an optimizer each"""
    makes = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16)).to("mps")
    judges = nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1)).to("mps")
    optimizers = [torch.optim.Adam(each.parameters(), 1e-3) for each in (makes, judges)]
    makes, judges = prepare(makes), prepare(judges)
    one, zero = torch.ones(8, 1, device="mps"), torch.zeros(8, 1, device="mps")
    loss_of = F.binary_cross_entropy_with_logits
    losses = []
    for _ in range(40):
        real, noise = torch.randn(8, 16).to("mps"), torch.randn(8, 8).to("mps")
        fake = makes(noise)
        judged = loss_of(judges(real), one) + loss_of(judges(fake.detach()), zero)
        optimizers[1].zero_grad()
        judged.backward()  # type: ignore[no-untyped-call]
        optimizers[1].step()
        made = loss_of(judges(fake), one)
        optimizers[0].zero_grad()
        made.backward()  # type: ignore[no-untyped-call]
        optimizers[0].step()
        losses += [judged.detach(), made.detach()]
    return [*losses, *makes.parameters(), *judges.parameters()]


@torch.no_grad()
def adapters(prepare: Prepare) -> list[Tensor]:
    """a model with two LoRA adapters (peft) that take turns"""
    from peft import get_peft_model, LoraConfig

    options = {"target_modules": ["c_attn"], "init_lora_weights": False, "fan_in_fan_out": True}
    model = get_peft_model(_gpt2(), LoraConfig(**options), adapter_name="one")
    model.add_adapter("two", LoraConfig(**options))
    model = model.to("mps").eval()
    prepare(model, in_place=True)
    results = []
    for i in range(40):
        model.set_adapter(("one", "two")[i % 2])
        results.append(model(_tokens(2, 16).to("mps")).logits.clone())
    return results


class _Int8Linear(nn.Module):
    weight: Tensor
    scale: Tensor

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        scale = linear.weight.detach().abs().amax(1, keepdim=True) / 127
        self.register_buffer("weight", (linear.weight.detach() / scale).round().to(torch.int8))
        self.register_buffer("scale", scale)
        self.bias = linear.bias

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight.to(x.dtype) * self.scale, self.bias)


@torch.no_grad()
def quantized(prepare: Prepare) -> list[Tensor]:
    """weights that were quantized to int8 on load"""
    layers = [_Int8Linear(nn.Linear(32, 32)) for _ in range(4)]
    model = prepare(nn.Sequential(*layers).to("mps").eval())
    return [model(torch.randn(4, 32).to("mps")).clone() for _ in range(40)]


def _detector() -> Any:
    from torchvision.models.detection import retinanet_resnet50_fpn

    # The library's wheels for Linux have this kernel for the CPU only, those for a Mac also for its GPU.
    nms = torch.ops.torchvision.nms
    if not torch._C._dispatch_has_kernel_for_dispatch_key("torchvision::nms", "MPS"):
        no_trace: Any = torch.compiler.disable
        kernel = no_trace(lambda b, s, t: nms(b.cpu(), s.cpu(), t).to(b.device))
        torch.library.impl("torchvision::nms", "MPS", kernel)
    options = {"weights": None, "weights_backbone": None, "num_classes": 5, "min_size": 64, "max_size": 64}
    # Random weights give low scores.
    return retinanet_resnet50_fpn(score_thresh=0.0, topk_candidates=30, **options).to("mps").eval()


def _detections(model: Any) -> list[Tensor]:
    found = [model(list(torch.rand(2, 3, 64, 64).to("mps"))) for _ in range(24)]
    return [tensor for images in found for image in images for tensor in image.values()]


@torch.no_grad()
def detector_network(prepare: Prepare) -> list[Tensor]:
    """torchvision's RetinaNet, backbone and head compiled"""
    model = _detector()
    model.backbone, model.head = prepare(model.backbone), prepare(model.head)
    return _detections(model)


@torch.no_grad()
def detector(prepare: Prepare) -> list[Tensor]:
    """torchvision's RetinaNet, compiled whole

    Compile only the backbone and the head, as in the row above. The number of boxes depends on the image, and Dynamo
    breaks the graph where boxes are chosen (torchvision/models/detection/retinanet.py:535, torchvision/ops/boxes.py:41).
    After `max_graphs` captures of the part that scales the boxes, its operators run eagerly if the number of boxes
    varies.
    """
    return _detections(prepare(_detector()))


PROGRAMS = (
    *(trainer, accelerated, timm_training, served_encoder, reinforcement, gan, adapters, quantized),
    *(detector_network, detector),
)
