"""tinygrpo: a real GRPO trainer, small enough to run on one core in seconds.

The examples, the tests and a first campaign need a trainer that truly learns, and that costs no GPU. This one
trains an autoregressive policy by GRPO on a verifiable task. `python -m autoresearch.tinygrpo --conf
recipe.yaml` runs it; `docs/tinygrpo.md` has the formulas, the recipe keys and measured curves.

The package imports nothing of the rest of `autoresearch`: standard library, numpy and yaml only. Rooms, in
the order of their imports: `recipe`, `recipe_file` (what the user may set), `tasks` (prompts and verifiers),
`policy`, `adam` (the network), `grpo` (the loss), `base_model`, `rollout`, `validation` (the phases),
`report` (lines and files), `faults` (failures on demand), `training` (the loop).
"""
