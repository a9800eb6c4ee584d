"""The task interface, `fine_tune`, `pretrain`, and the training loop that they share."""

from bert_tf.lazy import lazy_names

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "checkpointing": ("BestCheckpoint", "check_metric", "latest", "log_best_checkpoint"),
        "fine_tuning": ("fine_tune",),
        "loop": ("PreemptionHandler", "TrainLoop", "exclusive_directory"),
        "metrics": (),
        "pretraining": ("pretrain",),
        "pretraining_task": ("PretrainingTask",),
        "results": (),
        "step": ("LossScale", "TrainStep"),
        "strategy": (
            "Workers",
            "make_strategy",
            "on_all_replicas",
            "per_replica",
            "set_seed",
            "model_strategy",
            "use_xla",
        ),
        "task": ("Task", "TaskData"),
        "task_config": ("TaskConfig", "check_length"),
        "task_spec": ("TASKS", "ServedTask", "TaskSpec", "register"),
        "trainer": ("Trainer",),
    },
)
