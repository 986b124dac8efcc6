"""Fine-tunes a LoRA adapter on chat data and writes it as a plain PEFT directory.

Beside the adapter lie its versions of lower ranks, each a plain PEFT directory too, which a node
serves in its place under pressure.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from edgelora.toolchain.card_words import check_card_words
from edgelora.toolchain.errors import ToolchainError
from edgelora.toolchain.lora_model import load_tokenizer
from edgelora.toolchain.probe_file import PROBE_FILE, write_probe
from edgelora.toolchain.router_card import routed_text, write_card_of
from edgelora.toolchain.training_card import write_card, write_report
from edgelora.toolchain.training_data import TrainingData, read_training_data
from edgelora.toolchain.training_hardware import choose_hardware
from edgelora.toolchain.training_job import TrainingJob as TrainingJob
from edgelora.toolchain.training_memory import TrainingSize, free_bytes, is_out_of_memory
from edgelora.toolchain.training_options import BASE_TRAINING_TOKENS, TrainingOptions, data_share
from edgelora.toolchain.training_output import training_output
from edgelora.toolchain.training_output import unfinished_run as unfinished_run
from edgelora.toolchain.training_quality import measure_versions
from edgelora.toolchain.training_ranks import copy_probe
from edgelora.toolchain.training_record import record_of
from edgelora.toolchain.training_report import TrainingReport
from edgelora.toolchain.training_versions import Setup, train_versions
from services.chassis.base_model import FLOAT32_FILE, BaseModel, prepare_command

CARD_EXAMPLES = 8
"""Prompts of the training data that a card quotes."""


def train(
    job: TrainingJob,
    options: TrainingOptions,
    output: Path,
    *,
    replace: bool = False,
    resume: bool = False,
) -> TrainingReport:
    """Trains and publishes `output` at once when everything is done; progress goes to stderr.

    `output` holds adapter_config.json, adapter_model.safetensors (fp16), README.md, report.json,
    report.md with its pictures, `rank-R` for every lower rank, with test data probe.jsonl and with
    examples card.json. Until then checkpoints lie in `.NAME.training` beside it, from which
    `resume` goes on. Raises ToolchainError for unusable data or settings, when memory ran or would
    run out, or when `output` or an unfinished run is there and neither `replace` nor `resume` says
    what to do. Ctrl-C leaves the checkpoints alone behind.
    """
    # Imported only now: the demo adapters are trained without pictures.
    from edgelora.toolchain.training_charts import draw_training

    inputs = (job.train_file, job.test_file)
    with training_output(output, inputs, replace=replace, resume=resume) as places:
        report = train_into(job, options, places.result, checkpoints=places.checkpoints)
        write_report(report, places.result, draw_training(report, places.result))
    return report


def train_into(
    job: TrainingJob, options: TrainingOptions, directory: Path, *, checkpoints: Path | None = None
) -> TrainingReport:
    """As `train`, into an existing directory, file by file, without report.md and pictures."""
    check_card_words(job.name, job.description, job.licence, job.permissions, job.examples)
    base = prepared_base(job.model_directory)
    options.check(base.targets)
    job.ranks.check(options.r, options.parameters_of_one_rank(base))
    tokenizer = load_tokenizer(job.model_directory)
    data = read_training_data(
        job.train_file,
        job.test_file,
        tokenizer,
        max_tokens=min(options.max_example_tokens, base.max_context_tokens),
        held_out_share=job.held_out_share,
        seed=options.seed,
    )
    if options.early_stop and not data.test:
        raise ToolchainError("early stopping needs test data: give --test-data, or --held-out")
    base_tokens = job.base_training_tokens
    if base_tokens is None:
        base_tokens = BASE_TRAINING_TOKENS.get(base.name)
    share = data_share(
        data.train_tokens, base_tokens, force=options.force, base_parameters=base.num_parameters
    )
    hardware = choose_hardware(options)
    size = TrainingSize(
        base=base,
        base_parameters=(job.model_directory / FLOAT32_FILE).stat().st_size // 4,
        longest_tokens=max(len(example.token_ids) for example in data.train),
        loss_share=sum(example.loss_tokens for example in data.train) / data.train_tokens,
        is_mixed=hardware.is_mixed,
    )
    if hardware.device.type == "cpu" and not options.force:
        size.check(options, free_bytes())
    setup = Setup(job.model_directory, base, hardware, tokenizer, data, checkpoints)
    try:
        with TemporaryDirectory(prefix="edgelora-") as scratch:
            trained = train_versions(setup, options, job.ranks, directory, Path(scratch))
            quality = measure_versions(setup, trained.versions, directory, job.task)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise ToolchainError(f"memory ran out: {size.advice(options, None)}") from error
    write_probe(directory, data.test_conversations, tokenizer)
    copy_probe(PROBE_FILE, directory, trained.versions)
    report = record_of(job, options, setup, trained, quality, base_tokens, share)
    report.save(directory)
    write_card(report, directory, job.description, _write_examples(job, data, directory))
    return report


def prepared_base(directory: Path) -> BaseModel:
    """Describes a prepared model with fp32 weights. Raises ToolchainError when it is not there."""
    try:
        base = BaseModel.load(directory)
        base.verify_file(directory, FLOAT32_FILE)
    except FileNotFoundError as error:
        raise ToolchainError(
            f"model {directory.name!r} is not prepared: run "
            f"`{prepare_command(directory.name, 'float32')}` first; `edgelora model list` shows "
            "those that are"
        ) from error
    except ValueError as error:
        raise ToolchainError(str(error)) from error
    return base


def _write_examples(job: TrainingJob, data: TrainingData, directory: Path) -> list[str]:
    """Writes card.json when there is something to say in it; returns the prompts it has."""
    if job.examples:
        return write_card_of(directory, job.description, job.examples)
    if not job.quotes_data:
        return []
    prompts = [routed_text(one) for one in data.train_conversations]
    return write_card_of(directory, job.description, prompts[:: -(-len(prompts) // CARD_EXAMPLES)])
