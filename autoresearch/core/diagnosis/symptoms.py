"""Symptoms: what goes wrong in RL post-training, how it shows in the metrics, what may cause it, what to try.

Each row tests the evidence. The rows that apply are shown to the agent with their numbers, with hypotheses and with
what would disprove them. The rows were written for autoresearch; the thresholds are where practitioners begin to
look. A symptom is a reason for an experiment, never a verdict.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from autoresearch.core.diagnosis import symptom_signs as see
from autoresearch.core.diagnosis.symptom_knobs import key_of
from autoresearch.core.diagnosis.symptom_signs import Sign, SymptomEvidence
from autoresearch.core.metrics.metric_keys import GRADIENT_KEYS, KL_KEYS, REWARD_KEYS

ENTROPY = ("actor/entropy", "train/approx_entropy", "train/entropy_loss", "entropy", "entropy_loss")
LENGTH = (
    *("response_length/mean", "train/mean_gen_tokens_per_sample", "rollout/response_len/mean"),
    *("rollout/response_length_mean", "completions/mean_length", "response_length"),
)
TRUNCATED = (
    *("response_length/clip_ratio", "rollout/truncated_ratio", "rollout/truncated_rate"),
    *("completions/clipped_ratio", "train/truncation_rate"),
)
CLIPPED = ("actor/pg_clipfrac", "train/pg_clipfrac", "clip_ratio/region_mean")
UNIFORM = ("frac_reward_zero_std",)
STEP_KL = ("actor/ppo_kl", "train/ppo_kl", "ppo_kl")
LOGPROBS_APART = (
    *("rollout_corr/log_ppl_abs_diff", "training/rollout_probs_diff_mean", "train/train_rollout_logprob_abs_diff"),
    *("sampling/sampling_logp_difference/mean",),
)
RATIO = (
    *("train/sampling_importance_ratio", "sampling/importance_sampling_ratio/mean"),
    *("rollout_corr/rollout_is_mean", "train/token_mult_prob_error"),
)
GENERATION_S = ("timing_s/gen", "perf/rollout_time", "timing/generation")
STEP_S = ("timing_s/step", "perf/step_time", "timing/step_total", "step_time")
UPDATE_S = ("timing_s/update_actor", "perf/actor_train_time", "timing/ppo_train")
FORMAT = ("reward/format", "critic/format_reward/mean", "rewards/format_reward/mean", "rewards/format_reward_func/mean")
REPEATED = ("rollout/repetition_frac", "critic/madness_rate")
TURNS = ("num_turns/mean", "training/num_turns/mean", "train/avg_turns_per_sample")
_COMMUNICATION = (
    *("communication", "hang"),
    *("engine_dead", "ray_actor_died", "nccl_timeout", "nccl_error", "rollout_stall"),  # of older records
)
_FAULTS = ("code", "configuration", "environment", "python_error", "config_error", "import_error")
TRUE_KL = KL_KEYS[: KL_KEYS.index("actor/ppo_kl")]  # the distance to the reference


@dataclass(frozen=True, slots=True)
class Try:
    """A hypothesis in one clause, and the names in `KNOBS` of the settings that it changes."""

    text: str
    knobs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Symptom:
    """One row of the table: a sign, its possible causes, what to try, and what would disprove it."""

    name: str
    sign: Sign
    causes: str
    tries: tuple[Try, ...]
    disproof: str


@dataclass(frozen=True, slots=True)
class DetectedSymptom:
    """A symptom that the evidence shows, with its numbers."""

    symptom: Symptom
    numbers: str

    def lines(self, trainer: str = "") -> list[str]:
        """Lines for a prompt: the symptom with its numbers, possible causes, what to try, what would disprove it."""
        lines = [f"{self.symptom.name}: {self.numbers}", f"  may come from: {self.symptom.causes}"]
        for one in self.symptom.tries:
            keys = ", ".join(key for knob in one.knobs if (key := key_of(knob, trainer)))
            lines.append(f"  try: {one.text}" + (f" [{keys}]" if keys else ""))
        return [*lines, f"  disproved if: {self.symptom.disproof}"]


def _row(name: str, sign: Sign, causes: str, tries: Iterable[tuple[str, str]], disproof: str) -> Symptom:
    return Symptom(name, sign, causes, tuple(Try(text, tuple(knobs.split())) for text, knobs in tries), disproof)


SYMPTOMS: tuple[Symptom, ...] = (
    _row(
        "entropy collapse",
        see.fell(ENTROPY, 0.25, least=0.02),
        "the clip range holds rare tokens down, too many updates on one batch, a small group, greedy sampling",
        (
            ("raise the upper clip bound only", "clip_high"),
            ("a small entropy bonus, or a higher sampling temperature", "entropy temperature"),
            ("fewer updates per rollout", "updates"),
        ),
        "entropy stays up and the objective is no better: it was convergence, not collapse",
    ),
    _row(
        "entropy explosion",
        see.rose(ENTROPY, 1.6, least=0.3),
        "an entropy bonus or learning rate that is too large, noise in the reward, training on truncated answers",
        (
            ("a smaller entropy bonus or none", "entropy"),
            ("a lower learning rate with a warmup", "lr warmup"),
            ("leave truncated answers out of the loss", "overlong"),
        ),
        "entropy falls again and the objective does not follow",
    ),
    _row(
        "KL blow-up",
        see.either(see.above(TRUE_KL, 0.5), see.rose(TRUE_KL, 8.0, least=0.15)),
        "too large steps, a reward that can be gamed, a KL estimator with high variance",
        (
            ("a lower learning rate", "lr"),
            ("a larger KL coefficient, or a KL estimator with less variance", "kl kl_estimator"),
            ("clip gradients harder", "grad_clip"),
        ),
        "KL stays low and the objective falls behind: the distance was needed",
    ),
    _row(
        "policy hardly moves",
        see.both(see.below(TRUE_KL, 1e-4), see.below(STEP_KL, 1e-4)),
        "a learning rate that is too low, a KL coefficient that holds it back, frozen or wrongly loaded weights",
        (
            ("a learning rate three to ten times higher", "lr"),
            ("a smaller KL coefficient or none", "kl"),
            ("check in the code that the trained parameters require gradients", ""),
        ),
        "KL grows and the objective does not move",
    ),
    _row(
        "reward plateau",
        see.plateau(REWARD_KEYS),
        "groups that are all right or all wrong, exploration that is over, data that are used up",
        (
            ("leave out or resample groups without a difference in reward", "filter"),
            ("more answers per prompt", "group"),
            ("harder or fresher prompts; a decaying learning rate", "prompts lr"),
        ),
        "the share of groups with a gradient rises, and the reward stays",
    ),
    _row(
        "reward still rising at the end",
        see.still_rising(REWARD_KEYS),
        "the run is too short for this step size",
        (
            ("a higher learning rate", "lr"),
            ("a shorter warmup", "warmup"),
            ("more updates per rollout, while clip fraction and KL stay calm", "updates"),
        ),
        "the same reward is reached earlier, and ends no higher",
    ),
    _row(
        "no reward at all",
        see.never_moved(REWARD_KEYS),
        "the grader never agrees: answer format, parser, prompt template, stop tokens; the task is too hard",
        (
            ("show the answer format in the prompt, or make the parser lenient", ""),
            ("longer answers, if they are cut before the result", "length"),
            ("easier problems first, or partial credit", ""),
        ),
        "answers read by eye are right and scored wrong: then it is the grader, else the task",
    ),
    _row(
        "training reward saturated",
        see.above(REWARD_KEYS, 0.95),
        "the training problems are solved: no gradient is left",
        (
            ("drop problems that are always solved, weight the hard ones", "filter"),
            ("fewer steps, or a smaller learning rate at the end", "lr"),
        ),
        "the reward falls with harder data and the objective does not gain",
    ),
    _row(
        "noisy reward",
        see.jagged(REWARD_KEYS, 0.25),
        "few prompts per step, a grader that is itself noisy, tasks of very different difficulty",
        (
            ("more prompts per step", "prompts"),
            ("more answers per prompt", "group"),
            ("a grader that gives the same answer the same score", ""),
        ),
        "steps get smoother at equal samples, and the objective is where it was",
    ),
    _row(
        "length explosion",
        see.rose(LENGTH, 1.8, least=20.0),
        "wrong long answers are punished less per token, repetition, no cost of length",
        (
            ("average the loss over tokens instead of sequences", "aggregate"),
            ("a soft penalty just below the length limit", "overlong"),
            ("advantages without division by the group's deviation", "std_norm"),
        ),
        "answers get shorter and the objective falls: the length was thinking",
    ),
    _row(
        "length collapse",
        see.fell(LENGTH, 0.5, least=20.0),
        "a length penalty that outweighs correctness, an early stop token, a reward for guesses",
        (
            ("a smaller length penalty or none", "overlong"),
            ("a larger KL coefficient", "kl"),
            ("reward the steps, or ask for them in the prompt", ""),
        ),
        "answers get longer and no better",
    ),
    _row(
        "many answers cut at the limit",
        see.above(TRUNCATED, 0.2),
        "the limit is too tight, or the policy rambles; cut answers count as wrong ones",
        (
            ("leave cut answers out of the loss", "overlong"),
            ("a higher limit of length", "length"),
            ("a prompt that asks for less", ""),
        ),
        "fewer are cut and the objective is the same",
    ),
    _row(
        "clip fraction high",
        see.above(CLIPPED, 0.2),
        "too many updates on one rollout, too large a step, old samples",
        (
            ("fewer updates per rollout", "updates"),
            ("a lower learning rate", "lr"),
            ("a wider clip range upwards", "clip_high"),
        ),
        "the fraction falls and the objective learns slower",
    ),
    _row(
        "groups without a difference",
        see.above(UNIFORM, 0.5),
        "problems that are too easy or too hard, a small group, a coarse reward",
        (
            ("filter or resample such groups", "filter"),
            ("more answers per prompt, or a higher temperature", "group temperature"),
            ("a finer reward", ""),
        ),
        "more groups have a gradient, at equal samples, and nothing is gained",
    ),
    _row(
        "most groups are all right",
        see.above(("batch/solve_all",), 0.5),
        "the training data are too easy by now",
        (
            ("drop or down-weight problems that are always solved", "filter"),
            ("fewer answers for easy prompts, more for hard ones", "group"),
        ),
        "the share falls and the objective does not gain",
    ),
    _row(
        "most groups are all wrong",
        see.above(("batch/solve_none",), 0.6),
        "the problems are too hard for this policy, or the format is missed",
        (
            ("easier problems first", ""),
            ("more answers per prompt, or a higher temperature", "group temperature"),
            ("partial credit, or hints in the prompt", ""),
        ),
        "more groups have a right answer, and the objective does not gain",
    ),
    _row(
        "gradient spikes",
        see.spikes(GRADIENT_KEYS, 5.0),
        "single long or rare samples, advantages divided by a tiny deviation, old samples",
        (
            ("clip gradients harder", "grad_clip"),
            ("advantages without division by the group's deviation", "std_norm"),
            ("correct or drop tokens whose ratio is far from 1", "correction"),
        ),
        "the spikes go and the objective is the same: they did no harm",
    ),
    _row(
        "gradient nearly zero",
        see.below(GRADIENT_KEYS, 1e-3),
        "no advantage is left (uniform groups), a loss that is masked away, an overflow of fp16",
        (
            ("look for groups without a difference first", "filter"),
            ("bf16 instead of fp16", "precision"),
            ("check in the code what the loss mask leaves", ""),
        ),
        "gradients come back and nothing is learnt",
    ),
    _row(
        "training gains, objective does not",
        see.apart(REWARD_KEYS),
        "memorised training data, a reward that is not the objective, prompts that differ between the two",
        (
            ("the same prompt and answer format in training as in validation", ""),
            ("more or more varied training data; fewer passes over it", "prompts updates"),
            ("a larger KL coefficient", "kl"),
        ),
        "the training reward rises slower, and the objective no faster",
    ),
    _row(
        "objective was better before the end",
        see.best_was_earlier(),
        "over-optimisation, entropy that is gone, a learning rate that does not decay",
        (
            ("let the learning rate decay to zero", "lr"),
            ("a larger KL coefficient late in the run", "kl"),
            ("keep entropy up", "entropy clip_high"),
        ),
        "the end is as good as the peak was, and the peak is not higher: then only stopping earlier is gained",
    ),
    _row(
        "metrics not finite",
        see.not_finite(),
        "overflow of fp16, a division by a zero deviation, a log of zero, a step that is far too large",
        (
            ("bf16, or fp32 for the loss", "precision"),
            ("a lower learning rate with a warmup, gradients clipped", "lr warmup grad_clip"),
            ("an epsilon where the code divides by a deviation", "std_norm"),
        ),
        "it happens at the same step again: then it is a sample in the data",
    ),
    _row(
        "out of GPU memory",
        see.failed_with("gpu_memory", "cuda_oom", "kv_cache"),
        "micro-batches by count and not by tokens, the generation engine's share, no recomputation",
        (
            ("fewer tokens per GPU in the update", "tokens_per_gpu"),
            ("recompute activations", "checkpointing"),
            ("a smaller share for the generation engine, or shorter answers", "engine_memory length"),
        ),
        "it fits, and runs so much slower that it is not worth it",
    ),
    _row(
        "out of host memory",
        see.failed_with("host_memory", "host_oom"),
        "offloading of optimiser or parameters, many environment workers, logs of samples that are kept",
        (("less offloading, or fewer workers", ""), ("smaller batches per step", "prompts")),
        "memory grows all the same: then it leaks",
    ),
    _row(
        "generation takes most of the time",
        see.part_of(GENERATION_S, STEP_S, 0.65),
        "a few very long answers that all others wait for, little memory for the cache, small batches",
        (
            ("more memory for the engine, or more sequences at once", "engine_memory"),
            ("go on with unfinished answers in the next step", "partial"),
            ("a tighter limit of length, or overlapped generation", "length age"),
        ),
        "steps get shorter, and the objective per hour is no better",
    ),
    _row(
        "updates take most of the time",
        see.part_of(UPDATE_S, STEP_S, 0.6),
        "padding, small micro-batches, recomputation that is not needed, many updates per rollout",
        (
            ("micro-batches by tokens, packed", "tokens_per_gpu"),
            ("fewer updates per rollout", "updates"),
            ("no recomputation where memory allows", "checkpointing"),
        ),
        "steps get shorter, and the objective per hour is no better",
    ),
    _row(
        "steps get slower",
        see.rose(STEP_S, 1.6),
        "answers that grow, more tool calls, a cache or a log that grows",
        (("bound the length of answers", "length overlong"), ("find what grows: memory, turns, files", "")),
        "answers are as long as before, and steps too: then something leaks",
    ),
    _row(
        "samples are stale",
        see.above(STEP_KL, 0.05),
        "samples that are several versions old, many updates on one rollout",
        (
            ("younger samples, fewer versions ahead", "age"),
            ("fewer updates per rollout", "updates"),
            ("a correction by truncated importance sampling", "correction"),
        ),
        "the step's KL falls, and only throughput is lost",
    ),
    _row(
        "trainer and engine disagree",
        see.either(see.above(LOGPROBS_APART, 0.05), see.above(("train/gen_kl_error",), 0.01)),
        "other kernels or precision in the generation engine, quantised weights, another chat template, stale weights",
        (
            ("correct by truncated importance sampling", "correction"),
            ("the same precision on both sides", "precision"),
            ("compare tokens and template of both sides in the code", ""),
        ),
        "the difference falls, and the objective is the same",
    ),
    _row(
        "importance ratio drifts",
        see.away_from(RATIO, 1.0, 0.1),
        "stale samples, different numerics of trainer and engine, whole sequences weighted by a product of tokens",
        (
            ("truncate or mask ratios", "correction"),
            ("younger samples", "age updates"),
        ),
        "the mean ratio is 1, and the objective is the same",
    ),
    _row(
        "format reward saturated",
        see.above(FORMAT, 0.95),
        "the format is learnt; its reward now only adds a constant, and hides the rest in group advantages",
        (
            ("a smaller weight of the format reward, or none from now on", ""),
            ("make the format a condition of the reward for correctness", ""),
        ),
        "the format is lost again and correctness does not gain",
    ),
    _row(
        "repetition",
        see.above(REPEATED, 0.05),
        "no cost of length, a temperature that is too low or too high, entropy that is gone, missing stop tokens",
        (
            ("end or punish answers that repeat", ""),
            ("the stop tokens of the chat template", ""),
            ("another temperature", "temperature"),
        ),
        "there is less of it and the objective is the same",
    ),
    _row(
        "critic explains nothing",
        see.below(("critic/vf_explained_var",), 0.05),
        "a critic that starts cold, a wrong learning rate of it, returns of very different scale",
        (
            ("warm the critic up before the policy learns", ""),
            ("group baselines instead of a critic", ""),
        ),
        "the explained variance rises and the objective does not",
    ),
    _row(
        "tool calls fail",
        see.above(("tools/failure_frequency",), 0.2),
        "a tool that is described badly, arguments that are parsed strictly, time limits",
        (
            ("show one right call in the prompt", ""),
            ("return the error to the policy instead of ending the episode", ""),
        ),
        "calls succeed and the objective is the same",
    ),
    _row(
        "turns grow",
        see.rose(TURNS, 1.6, least=3.0),
        "no cost of a turn, tools that answer too little, no rule when to stop",
        (("a small cost per turn, or a budget told in the prompt", ""), ("say more in what a tool returns", "")),
        "fewer turns, and the objective falls: they were needed",
    ),
    _row(
        "the engine or its workers die",
        see.failed_with(*_COMMUNICATION),
        "memory that runs out beside the trainer, one rank that waits for another, a request that never ends",
        (
            ("less memory for the engine", "engine_memory"),
            ("a bound on the length of answers and on each request", "length"),
        ),
        "it dies at the same place with half the load: then it is a bug of this version",
    ),
    _row(
        "code of ideas breaks",
        see.failed_with(*_FAULTS),
        "an edit that was not tried, a key that this version does not know",
        (("smaller changes, with a test of their own", ""), ("keys that the recipe has already", "")),
        "small changes break as well: then it is the environment",
    ),
)


def symptoms_of(metrics: SymptomEvidence) -> list[DetectedSymptom]:
    """The symptoms that the evidence shows, in the order of the table."""
    return [DetectedSymptom(symptom, numbers) for symptom in SYMPTOMS if (numbers := symptom.sign(metrics))]
