"""The command line: one subcommand a task, each imported only when it is asked for."""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from tinyvllm.hub import ModelNotAvailable

QUESTION = "What is the capital of France?"

# Commands that parse their own arguments: name -> (module, what it does).
DELEGATED = {
    "fetch": ("tinyvllm.hub.cli", "fetch", "download a model and print its folder"),
    "doctor": ("tinyvllm.doctor", "main", "check this machine, one line a thing"),
    "bench": ("tinyvllm.bench.cli", "main", "measure the engine beside its peers"),
    "course": ("tinyvllm.course.cli", "main", "build, test, promote and reset chapters"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit code. Mistakes of the user end in a sentence and code 1."""
    argv = list(sys.argv[1:] if argv is None else argv)
    try:
        if argv and argv[0] in DELEGATED:
            module, function, _ = DELEGATED[argv[0]]
            return getattr(import_module(module), function)(argv[1:])
        args = _parser().parse_args(argv)
        return args.command(args)
    except (ValueError, ModelNotAvailable) as error:  # sentences; anything else is a bug
        if os.environ.get("TINYVLLM_DEBUG"):
            raise
        print(f"tinyvllm: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130
    except BrokenPipeError:  # `tinyvllm generate … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def run(args: argparse.Namespace) -> int:
    """`make run`: the model answers $PROMPT, and the course is one line away."""
    question = os.environ.get("PROMPT") or QUESTION
    args.max_tokens, args.temperature = 256, 0.0
    llm = _load(args)
    print(f"\n> {question}\n")
    _answer(llm, [{"role": "user", "content": question}], args)
    print("\nNow build it yourself, piece by piece, in Jupyter:  make lab")
    return 0


def generate(args: argparse.Namespace) -> int:
    """Continues a text."""
    prompt = sys.stdin.read() if args.prompt == "-" else args.prompt
    llm = _load(args)
    print(prompt, end="", flush=True)
    _stream(llm, prompt, args)
    return 0


def chat(args: argparse.Namespace) -> int:
    """A conversation in the terminal."""
    from tinyvllm.chat import Chat

    return Chat(_load(args), lambda llm, messages: _answer(llm, messages, args)).loop()


def lab(args: argparse.Namespace) -> int:
    """Opens the chapters in JupyterLab."""
    root = Path(__file__).resolve().parent.parent
    if not (root / "chapters").is_dir():
        raise ValueError(f"{root} has no chapters: `lab` needs a checkout of the repository.")
    command = [sys.executable, "-m", "jupyterlab", "--ServerApp.root_dir", str(root)]
    return subprocess.call([*command, "--LabApp.default_url=/lab/tree/chapters", *args.rest])


def _load(args: argparse.Namespace):
    from tinyvllm.llm import LLM

    started = time.perf_counter()
    llm = LLM(
        args.model,
        dtype=args.dtype,
        device=args.device,
        max_model_len=args.max_model_len,
        kernels=args.kernels,
    )
    engine = llm.llm_engine
    dtype = str(engine.dtype).removeprefix("torch.")
    took = time.perf_counter() - started
    if engine.student_modules:
        print(f"Running on your code: {', '.join(engine.student_modules)}.", file=sys.stderr)
    print(
        f"Model ready on {_device_name(engine.device)} in {dtype}, {took:.1f} s.", file=sys.stderr
    )
    return llm


def _answer(llm, messages, args: argparse.Namespace) -> str:
    return _stream(llm, llm.chat_prompt(messages), args)


def _stream(llm, prompt, args: argparse.Namespace) -> str:
    """Prints an answer as it comes, then its speed; returns its text."""
    from tinyvllm.sampling_params import SamplingParams

    params = SamplingParams(
        temperature=args.temperature,
        top_p=args.top_p,
        top_k=args.top_k,
        seed=args.seed,
        max_tokens=args.max_tokens,
        stop=args.stop,
        ignore_eos=args.ignore_eos,
    )
    text, tokens, finish = "", 0, None
    started = time.perf_counter()
    first = started
    for output in llm.stream(prompt, params):
        new = output.outputs[0]
        text += new.text
        if tokens == 0:
            first = time.perf_counter()
        tokens += len(new.token_ids)
        finish = new.finish_reason
        print(new.text, end="", flush=True)
    ended = time.perf_counter()
    print(flush=True)
    speed = f", then {(tokens - 1) / (ended - first):.1f} tokens/s" if tokens > 1 else ""
    print(
        f"[{tokens} token{'s' * (tokens != 1)}, the first after {first - started:.2f} s{speed}; "
        f"finish_reason: {finish}]",
        file=sys.stderr,
    )
    return text


def _device_name(device) -> str:
    if device.type == "cpu":
        import torch

        return f"the CPU ({torch.get_num_threads()} threads)"
    import torch

    return torch.cuda.get_device_name(device)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tinyvllm", description="A small LLM engine, and a course."
    )
    commands = parser.add_subparsers(required=True, metavar="command")

    def add(name: str, function, *, engine: bool = True, sampling: bool = True):
        sub = commands.add_parser(name, help=function.__doc__.splitlines()[0])
        sub.set_defaults(command=function)
        if engine:
            _engine_options(sub)
        if sampling:
            _sampling_options(sub)
        return sub

    add("run", run)
    add("generate", generate).add_argument("prompt", help="the text to continue; - reads stdin")
    chat_parser = add("chat", chat)
    chat_parser.set_defaults(max_tokens=512)
    add("lab", lab, engine=False, sampling=False).add_argument("rest", nargs=argparse.REMAINDER)
    for name, (_, _, what) in DELEGATED.items():
        commands.add_parser(name, help=what)
    return parser


def _engine_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model", help="a folder or a name on the hub; default: SmolLM2-135M-Instruct"
    )
    parser.add_argument("--dtype", default="auto", help="auto, float32, bfloat16 or float16")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--max-model-len", type=int, help="prompt plus answer, in tokens")
    parser.add_argument("--kernels", default="auto", help="auto, promoted, emulated or reference")


def _sampling_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--max-tokens", type=int, default=128, help="longest answer (128)")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 is greedy (the default)")
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--top-k", type=int, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--stop", action="append", help="end before this text; may be repeated")
    parser.add_argument("--ignore-eos", action="store_true", help="go on past the end token")
