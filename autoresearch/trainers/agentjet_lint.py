"""Checks of an AgentJet recipe, its launch command, and both in their run environment.

From modelscope/AgentJet: ajet/utils/{config_utils,launch_utils}.py (the launcher's own checks),
ajet/backbone/trainer_verl.py (`fit`, `_validate_config`), ajet/context_tracker/base_tracker.py (lengths). Checks that
`core.blueprint.lint` makes for every recipe (execute_test, a path without a directory) are not repeated.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from autoresearch.core.blueprint.finding import Finding
from autoresearch.core.run.recipe_keys import look_up, product, real_at, text_of, true_at, whole_number
from autoresearch.core.run.trainer import Circumstances, Recipe
from autoresearch.core.shell.reading import simple_commands
from autoresearch.core.text.durations import spoken
from autoresearch.core.text.numbers import counted
from autoresearch.core.text.regex import later
from autoresearch.trainers.command_settings import with_flags
from autoresearch.trainers.framework import error, warning

# The keys of an AgentJet recipe, and the verl keys that AgentJet sets itself (modelscope/AgentJet).
#
# From ajet/default_config/ajet_default.yaml at 01a9a0df, with keys of older versions (d20cce0e, c8e0bd8e) and newer
# ones (ajet_config_schema.py at 1805d87e, docs); ajet/default_config/verl/config_auto_convertion_verl.jsonc at
# 0ff101a2.

ROOT = "ajet"

_KNOWN = """
: project_name experiment_name experiment_dir backbone enable_swarm_mode enable_interchange_server
: enable_experimental_interchange_server swarm_mode_sample_collection_method
: swarm_mode_sample_collection_max_cached_episodes execute_test execute_testing_lambda
model: path
data: max_prompt_length max_response_length train_batch_size
rollout: user_workflow force_disable_toolcalls max_env_worker gamma compute_madness_checklist
rollout: agent_madness_termination agent_madness_reward max_response_length_in_one_turn max_model_len
rollout: tensor_model_parallel_size n_vllm_engine max_num_seqs name gpu_memory_utilization num_repeat temperature
rollout: top_p top_k enable_oversample submit_oversample_multiplier
context_tracker: fix_retokenization_drift log_tool_format_check log_tool_format_error_detail detect_timeline_snap
context_tracker: alien_llm_model alien_llm_response_length
context_tracker.timeline_merging_policy: timeline_compare_level ignore_tools
trainer_common: val_before_train val_pass_n val_only val_max_num_task_each_validation val_max_num_task_clip_method
trainer_common: val_print_to_markdown_file_path train_print_to_markdown_file_path save_freq test_freq
trainer_common: total_training_steps total_epochs nnodes n_gpus_per_node logger mini_batch_num use_kl_loss
trainer_common: kl_loss_coef kl_loss_type kl_penalty_type use_kl_in_reward ppo_epochs loss_extra_scale_ratio
trainer_common: ulysses_sequence_parallel_size checkpoint_base_dir save_trajectory_as_json_file
trainer_common.algorithm: adv_estimator use_kl_in_reward
lora: lora_rank lora_alpha target_modules load_format layered_summon lora_adapter_path
interchange_server: interchange_method interchange_server_port num_fastapi_process max_fastapi_threads
interchange_server: max_inference_tracker_threads already_started
task_runner: wrapper_type wrapper_multiprocessing_timeout llm_infer_submit_method
"""

_OPEN = (  # groups that are passed on whole, or belong to a plug-in
    *("task_reader", "task_judge", "debug", "rollout.multi_turn", "rollout.val_kwargs"),
    *("trainer_common.optim", "trainer_common.fsdp_config"),
)

_SETS = """
trainer_common: trainer total_epochs val_before_train val_only n_gpus_per_node nnodes logger checkpoint_base_dir
trainer_common: trainer total_training_steps save_freq test_freq
trainer_common.algorithm: algorithm adv_estimator
trainer_common: algorithm use_kl_in_reward
trainer_common: actor_rollout_ref.actor use_kl_loss kl_loss_coef kl_loss_type ulysses_sequence_parallel_size ppo_epochs
trainer_common: actor_rollout_ref.actor loss_extra_scale_ratio
trainer_common.optim: actor_rollout_ref.actor.optim optimizer optimizer_impl lr lr_warmup_steps_ratio
trainer_common.optim: actor_rollout_ref.actor.optim total_training_steps weight_decay lr_warmup_steps betas
trainer_common.optim: actor_rollout_ref.actor.optim min_lr_ratio num_cycles lr_scheduler_type zero_indexed_step
trainer_common.optim: actor_rollout_ref.actor.optim grad_clip
lora: actor_rollout_ref.model lora_rank lora_alpha target_modules
lora: actor_rollout_ref.rollout load_format layered_summon
data: data max_prompt_length max_response_length train_batch_size
rollout: actor_rollout_ref.rollout max_model_len max_num_seqs tensor_model_parallel_size temperature
rollout: actor_rollout_ref.rollout gpu_memory_utilization
model: actor_rollout_ref.model path
: trainer project_name experiment_name
"""  # ajet group: verl group, names common to both

_OTHER_NAMES = {
    "trainer_common.mini_batch_num": "actor_rollout_ref.actor.override_ppo_mini_batch_num",
    "trainer_common.kl_penalty_type": "algorithm.kl_penalty",
    "rollout.num_repeat": "actor_rollout_ref.rollout.n",
}


def unknown(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """(key, nearest known key or "") for each key below `ajet` that is not in AgentJet's defaults."""
    known = set(_known())
    own = look_up(recipe, ROOT)
    for key in _leaves(own) if isinstance(own, Mapping) else ():
        if key in known or any(key.startswith(f"{group}.") for group in _OPEN):
            continue
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.75)
        last = key.rpartition(".")[2]
        same = [name for name in known if name.rpartition(".")[2] == last]
        yield f"{ROOT}.{key}", f"{ROOT}.{(same or near)[0]}" if same or near else ""


def set_twice(recipe: Recipe) -> Iterator[tuple[str, str, bool]]:
    """(ajet key, verl key, whether both are set and differ) for each of AgentJet's verl keys that the recipe sets."""
    for ours, theirs in _pairs():
        value = look_up(recipe, theirs)
        if value is not None:
            own = look_up(recipe, ours)
            yield ours, theirs, own is not None and str(own) != str(value)


def _known() -> Iterator[str]:
    for line in _KNOWN.strip().splitlines():
        group, _, names = line.partition(":")
        yield from (f"{group}.{name}" if group else name for name in names.split())


def _pairs() -> Iterator[tuple[str, str]]:
    for line in _SETS.strip().splitlines():
        group, _, rest = line.partition(":")
        theirs, *names = rest.split()
        prefix = f"{ROOT}.{group}." if group else f"{ROOT}."
        yield from ((f"{prefix}{name}", f"{theirs}.{name}") for name in names)
    yield from ((f"{ROOT}.{ours}", theirs) for ours, theirs in _OTHER_NAMES.items())


def _leaves(mapping: Mapping[object, object], prefix: str = "") -> Iterator[str]:
    for key, value in mapping.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


COMMON = "ajet.trainer_common"
VALIDATION = f"{COMMON}.val_print_to_markdown_file_path"
TRAINING = f"{COMMON}.train_print_to_markdown_file_path"
NAME = "ajet.experiment_name"
GPUS = ((f"{COMMON}.n_gpus_per_node", 8), (f"{COMMON}.nnodes", 1))
FLAGS = "ajet_command"  # the settings group for the launcher's own flags

STEP_S = 180.0  # the shortest step on record; ten minutes are just as common
_LAUNCHER = later(r"\bajet[./]launcher\b")
_SWARM = ("--swarm-server", "--swarm-overwatch")
_LOGGER = "swanlab"
_KEY = "SWANLAB_API_KEY"
_LORA_LR = 1e-5  # below it an adapter hardly moves


def launches(command: str) -> bool:
    """Whether this command starts the launcher for classic training, not for a swarm."""
    if any(flag in command for flag in _SWARM):
        return False
    return _LAUNCHER.search(command) is not None or any(s.name == "ajet" for s in simple_commands(command))


def lint(recipe: Recipe) -> tuple[Finding, ...]:
    """Findings that hold in any environment; none if there is no recipe."""
    if not any(key != FLAGS for key in recipe):
        return ()
    parts = (_shape, _validation, _files, _resources, _names, _swarm, _lengths, _lora, _keys)
    return tuple(finding for part in parts for finding in part(recipe))


def lint_here(recipe: Recipe, here: Circumstances) -> tuple[Finding, ...]:
    """Findings on output paths, secrets, the model's path, the time limit and the launcher's GPU check."""
    if look_up(recipe, ROOT) is None:
        return ()
    parts = (_outside, _secret, _model, _time, _check)
    return tuple(finding for part in parts for finding in part(recipe, here))


def _shape(recipe: Recipe) -> Iterator[Finding]:
    if not isinstance(look_up(recipe, ROOT), Mapping):
        yield error("no_ajet", "the recipe has no `ajet:` group, without which the launcher stops", "add it")
        return
    for key in ("defaults", "hydra"):
        if look_up(recipe, key) is None:
            message = f"the recipe has no `{key}:`, which the launcher reads without asking"
            hint = "copy `hydra:` and `defaults:` from the end of a recipe of AgentJet's own"
            yield warning(f"no_{key}", message, hint)


def _validation(recipe: Recipe) -> Iterator[Finding]:
    before = look_up(recipe, f"{COMMON}.val_before_train")
    if isinstance(before, str):
        message = f"val_before_train is {before!r}: any text but an empty one counts as true"
        yield warning("val_before_train", message, "write True")
    elif not before:
        message = "val_before_train is off: nothing says where training began"
        yield warning("val_before_train", message, f"set {COMMON}.val_before_train: True")
    if true_at(recipe, f"{COMMON}.val_only"):
        message = "val_only is true: the run validates and ends without a training step"
        yield warning("only_validates", message, f"take {COMMON}.val_only out")
    every, steps = validates_every(recipe), whole_number(recipe, f"{COMMON}.total_training_steps")
    if look_up(recipe, f"{COMMON}.test_freq") is None:
        yield warning("test_freq", "test_freq is not set: every 20 steps is validated", f"set {COMMON}.test_freq: 10")
    elif every == 0:
        message = "test_freq is not above 0: no step is validated, not even the last"
        yield warning("never_validates", message, f"set {COMMON}.test_freq: 10")
    elif steps and every > steps:
        message = f"test_freq is {every}, but training ends after {counted(steps, 'step')}: only its end is validated"
        yield warning("never_validates", message, f"set {COMMON}.test_freq to at most {steps}")


def validates_every(recipe: Recipe) -> int:
    """Steps between two validations, 20 if unset; 0: never."""
    value = look_up(recipe, f"{COMMON}.test_freq")
    number = 20 if value is None else whole_number(recipe, f"{COMMON}.test_freq")
    return max(number or 0, 0)


def _files(recipe: Recipe) -> Iterator[Finding]:
    """A run's metrics are read from these files; the console rounds. Files keep the lines of older runs."""
    for key, code, what in (
        (VALIDATION, "no_validation_file", "validation results are read from the console alone"),
        (TRAINING, "no_training_file", "training steps are read from the console alone"),
    ):
        if not text_of(recipe, key):
            message = f"{key.rpartition('.')[2]} is not set: {what}"
            yield warning(code, message, f"set {key} to a file inside exp_result_dir")


def _resources(recipe: Recipe) -> Iterator[Finding]:
    if look_up(recipe, GPUS[0][0]) is None:
        message = "n_gpus_per_node is not set: the trainer takes 8 GPUs"
        yield warning("n_gpus_per_node", message, f"set {GPUS[0][0]} to as few as will do")
    gpus = product(recipe, *GPUS)
    samples = product(recipe, ("ajet.data.train_batch_size", 32), ("ajet.rollout.num_repeat", 4))
    if gpus and samples and samples % gpus:
        message = f"train_batch_size times num_repeat is {samples}, which {gpus} GPUs cannot share evenly"
        yield error("batch_not_divisible", message, "the trainer stops there: choose a multiple")
    every = look_up(recipe, f"{COMMON}.save_freq")
    if every is None or (whole_number(recipe, f"{COMMON}.save_freq") or 0) > 0:
        told = "every 20 steps" if every is None else f"every {every} steps"
        message = f"checkpoints of model and optimizer are saved {told}, and at the last one"
        yield warning("saves_checkpoints", message, f"set {COMMON}.save_freq: -1 where nobody wants them")


def _names(recipe: Recipe) -> Iterator[Finding]:
    name = text_of(recipe, NAME)
    if name in ("", "read_yaml_name"):
        message = "experiment_name is not set: every start makes a name of its own, of the file's name and the time"
        yield warning("no_experiment_name", message, f"set {NAME}, another for each experiment")
    elif resumes_by_itself(recipe):
        message = f"a checkpoint of an older run named {name} would be resumed silently: trainer.resume_mode is auto"
        hint = f"give each experiment its own {NAME}, or add trainer: {{resume_mode: disable}}"
        yield warning("silent_resume", message, hint)


def resumes_by_itself(recipe: Recipe) -> bool:
    """Whether verl would resume an older checkpoint of the same name without being asked."""
    return text_of(recipe, "trainer.resume_mode") in ("", "auto")


def _swarm(recipe: Recipe) -> Iterator[Finding]:
    if true_at(recipe, "ajet.enable_swarm_mode"):
        message = "enable_swarm_mode is true: this launcher then waits for clients, and never validates"
        yield error("swarm_recipe", message, "start `ajet-swarm start` and a client, or set it to False")
    backbone = text_of(recipe, f"{FLAGS}.backbone") or "verl"
    if backbone == "debug":
        message = "--backbone debug runs two tasks and never trains: no step will be seen"
        yield warning("debug_backbone", message, "take it out for an experiment")
    elif backbone != "verl":
        message = f"--backbone {backbone} prints other lines than verl, which are not known here"
        yield warning("other_backbone", message, "declare `first_step:` and `source:` in the notes")


def _lengths(recipe: Recipe) -> Iterator[Finding]:
    usual = {"ajet.data.max_prompt_length": 3000, "ajet.data.max_response_length": 15000}
    parts = {key: real_at(recipe, key) if look_up(recipe, key) is not None else low for key, low in usual.items()}
    key = "ajet.rollout.max_model_len"
    whole = real_at(recipe, key) if look_up(recipe, key) is not None else 18000
    prompt, response = parts.values()
    if prompt is not None and response is not None and whole is not None and prompt + response > whole:
        message = f"max_prompt_length {prompt:g} and max_response_length {response:g} exceed max_model_len {whole:g}"
        yield error("too_long", message, "every episode fails on this: raise max_model_len, or lower one of them")


def _lora(recipe: Recipe) -> Iterator[Finding]:
    if not (real_at(recipe, "ajet.lora.lora_rank") or 0) > 0:
        return
    if text_of(recipe, "ajet.lora.load_format") != "safetensors":
        message = "lora_rank is set, but load_format is not safetensors"
        yield warning("lora_load_format", message, "set ajet.lora.load_format: safetensors")
    if not true_at(recipe, "ajet.lora.layered_summon"):
        message = "lora_rank is set, but layered_summon is off: all layers are gathered at once"
        yield warning("lora_layered_summon", message, "set ajet.lora.layered_summon: True")
    rate = real_at(recipe, f"{COMMON}.optim.lr")
    rate = 1e-6 if rate is None else rate
    if rate <= _LORA_LR:
        message = f"lora_rank is set, but the learning rate is {rate:g}: an adapter hardly moves at that"
        yield warning("lora_lr", message, f"set {COMMON}.optim.lr above {_LORA_LR:g}, 1.0e-4 for instance")


def _keys(recipe: Recipe) -> Iterator[Finding]:
    for key, near in unknown(recipe):
        message = f"{key} is none of AgentJet's keys as far as they are known here: it would be ignored silently"
        yield warning("unknown_key", message, f"did you mean {near}?" if near else "look it up in ajet_default.yaml")
    for ours, theirs, differ in set_twice(recipe):
        hint = f"take it out and set {ours} alone"
        if differ:
            message = f"{theirs} and {ours} are both set, to different values: the launcher refuses that"
            yield error("set_twice", message, hint)
        else:
            message = f"{theirs} is set by AgentJet itself, from {ours}: the launcher refuses any other value"
            yield warning("set_by_ajet", message, hint)


def lint_command(command: str) -> Iterator[Finding]:
    """Mistakes in the launch command; `--autokill` is refused elsewhere, for every trainer."""
    for simple in simple_commands(command):
        if simple.name == "ajet" and simple.argv[1:2] == ["swarm"]:
            message = "there is no `ajet swarm`: its parser refuses the words"
            yield error("no_such_command", message, "write `ajet-swarm start --swarm-port=10086`")
            return
    if not launches(command):  # the launcher is started from within a script
        return
    flags = with_flags({}, command)
    conf = flags.get("conf")
    if conf is None:
        message = "the launcher gets no --conf: it would end at once, having done nothing"
        yield error("no_conf", message, "add --conf and the recipe's path")
    elif isinstance(conf, str) and not conf.endswith(".yaml"):
        message = f"--conf names {conf}, which does not end in .yaml"
        yield error("no_conf", message, "rename it: the launcher asserts that it does")
    if flags.get("with_ray") and flags.get("with_ray_cluster"):
        yield error("two_rays", "--with-ray and --with-ray-cluster exclude each other", "take one out")


def _outside(recipe: Recipe, here: Circumstances) -> Iterator[Finding]:
    inside = here.result_dir.rstrip("/") + "/"
    for key in (VALIDATION, TRAINING):
        path = text_of(recipe, key)
        whole = path if path.startswith("/") else f"{here.cwd.rstrip('/')}/{path.removeprefix('./')}"
        if path and not whole.startswith(inside):
            message = f"{key.rpartition('.')[2]} lies outside of exp_result_dir: {path}"
            hint = "its lines are appended to those of every other run that names it; write it below exp_result_dir"
            yield warning("outside_result_dir", message, hint)


def _secret(recipe: Recipe, here: Circumstances) -> Iterator[Finding]:
    """The launcher also reads a `.env`, and checks the key only for a single logger, not for a list of loggers."""
    value = look_up(recipe, f"{COMMON}.logger")
    loggers = [_LOGGER] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(loggers, list | tuple) or _LOGGER not in loggers or here.environment.get(_KEY):
        return
    if not here.exists(f"{here.cwd.rstrip('/')}/.env"):
        message = f"the logger is {_LOGGER}, and {_KEY} is not set"
        hint = f"export {_KEY}, or set {COMMON}.logger: tensorboard"
        yield (error if value in (None, _LOGGER) else warning)("no_swanlab_key", message, hint)


def _model(recipe: Recipe, here: Circumstances) -> Iterator[Finding]:
    path = text_of(recipe, "ajet.model.path")
    if path.count("/") > 2 and "$" not in path:  # the launcher treats anything shorter as the name of a model on a hub
        whole = path if path.startswith("/") else f"{here.cwd.rstrip('/')}/{path}"
        if not here.exists(whole):
            yield error("missing_model", f"the model {path} is not there", "correct ajet.model.path")


def _time(recipe: Recipe, here: Circumstances) -> Iterator[Finding]:
    """Report only what is certain for the shortest step on record; how long this recipe's steps take is unknown."""
    steps = whole_number(recipe, f"{COMMON}.total_training_steps")
    told = f"even with steps of {spoken(STEP_S)}"
    if steps and steps * STEP_S > here.max_s:
        whole = spoken(steps * STEP_S)
        message = f"{counted(steps, 'step')} take {whole} {told}, and the run is ended after {spoken(here.max_s)}"
        hint = "lower total_training_steps, raise [exp_max_time], or let it be cut: what was validated by then counts"
        yield warning("cut_by_max_time", message, hint)
    epochs = whole_number(recipe, f"{COMMON}.total_epochs")
    if steps is None and epochs and epochs * STEP_S > here.max_s:
        least = f"{counted(epochs, 'epoch')} are {counted(epochs, 'step')} at least, and take "
        least += f"{spoken(epochs * STEP_S)} {told}"
        hint = "lower total_epochs or raise [exp_max_time], or set total_training_steps, which goes before epochs"
        yield warning("cut_by_max_time", f"{least}; the run is ended after {spoken(here.max_s)}", hint)
    every = validates_every(recipe)
    if every * STEP_S > here.max_s and (steps is None or steps * STEP_S > here.max_s):
        message = f"the first validation in training comes after {spoken(every * STEP_S)} {told}, later than the end"
        yield warning("validates_too_late", message, f"lower {COMMON}.test_freq")


def _check(recipe: Recipe, here: Circumstances) -> Iterator[Finding]:
    """The launcher checks all GPUs of the host with nvidia-smi, including those that this run cannot use."""
    if here.environment.get("CUDA_VISIBLE_DEVICES") and not true_at(recipe, f"{FLAGS}.skip_check_avail_gpu"):
        message = "the launcher refuses to start while any GPU of the host is in use, those of other runs too"
        yield warning("checks_all_gpus", message, "add --skip-check-avail-gpu to the command")
