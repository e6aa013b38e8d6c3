"""tinygrpo: a real GRPO trainer, small enough to run on one core in seconds.

The examples, the tests and a first campaign need a trainer that really learns and needs no GPU. This one trains an
autoregressive policy by GRPO on a verifiable task. `python -m autoresearch.tinygrpo --conf recipe.yaml` runs it;
`docs/tinygrpo.md` has the formulas, the recipe keys and measured curves.

The package imports nothing from the rest of `autoresearch`, only the standard library, numpy and yaml. Its modules, in
import order: `recipe` (what the user may set), `tasks` (prompts and verifiers), `grpo` (the network, rollouts, loss),
`training` (the loop and its output).
"""
