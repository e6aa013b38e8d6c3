"""GRPO with TRL on a model made on the spot: no download, no GPU, half a minute on one CPU core.

    python blueprints/trl/tiny_grpo.py --config blueprints/recipes/trl-tiny.yaml --learning_rate 3e-3

The recipe is flat, as `trl grpo --config` reads it, and flags win over it. Put your own model, data and reward in
the place of these three: what the harness needs stands in the recipe.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, set_seed
from trl import GRPOConfig, GRPOTrainer, TrlParser

WORDS = ["<pad>", "<eos>", "say", "an", "even", "digit", *"0123456789"]


@dataclass
class Task:
    """What the recipe says beyond TRL's own keys."""

    prompts: int = field(default=64, metadata={"help": "training prompts; a quarter as many are held out"})
    hidden: int = field(default=32, metadata={"help": "width of the model"})
    layers: int = field(default=2, metadata={"help": "depth of the model"})


def tokenizer() -> PreTrainedTokenizerFast:
    """One token per word."""
    words = Tokenizer(models.WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="<pad>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", unk_token="<pad>", padding_side="left"
    )


def base_model(task: Task, place: Path) -> str:
    """A random one, from nothing but a configuration; saved, because the KL's reference is loaded from a path."""
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(WORDS),
            hidden_size=task.hidden,
            intermediate_size=2 * task.hidden,
            num_hidden_layers=task.layers,
            num_attention_heads=2,
            num_key_value_heads=2,
            max_position_embeddings=64,
            pad_token_id=0,
            eos_token_id=1,
            bos_token_id=1,
        )
    )
    model.save_pretrained(place)
    return str(place)


def prompts(count: int, first: int = 0) -> Dataset:
    """So many prompts; `digit` reaches the reward, too."""
    digits = [str(n % 10) for n in range(first, first + count)]
    return Dataset.from_dict({"prompt": [f"{digit} say an even digit" for digit in digits], "digit": digits})


def evenness(completions: list[str], **columns: object) -> list[float]:
    """The programmatic reward: the share of even digits in each answer."""
    return [sum(word in set("02468") for word in said.split()) / max(1, len(said.split())) for said in completions]


def main() -> None:
    """Train, evaluate, and leave a trainer_state.json with all of it."""
    task, settings = TrlParser((Task, GRPOConfig)).parse_args_and_config()
    set_seed(settings.seed)
    trainer = GRPOTrainer(
        model=base_model(task, Path(settings.output_dir) / "base"),
        reward_funcs=evenness,
        args=settings,
        train_dataset=prompts(task.prompts),
        eval_dataset=prompts(task.prompts // 4, first=task.prompts),
        processing_class=tokenizer(),
    )
    trainer.train()
    trainer.save_state()


if __name__ == "__main__":
    main()
