from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer, ModelConfig, ScriptArguments, TrlParser
def reward_len(completions, **kwargs):
    return [-abs(20 - len(c)) for c in completions]
if __name__ == "__main__":
    parser = TrlParser((ScriptArguments, GRPOConfig, ModelConfig))
    script_args, training_args, model_args = parser.parse_args_and_config()
    dataset = load_dataset(script_args.dataset_name, split="train")
    trainer = GRPOTrainer(model=model_args.model_name_or_path, reward_funcs=reward_len, args=training_args, train_dataset=dataset)
    trainer.train()
