"""`%%cuda` in IPython: what it binds, and what a student reads when something is wrong."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

pytest.importorskip("IPython", reason="IPython comes with the `test` extra")
import torch
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from tinyvllm.cuda import CompileError, Kernel, KernelError
from tinyvllm.cuda import compiler as cuda_compiler
from tinyvllm.cuda.cell_errors import CellError
from tinyvllm.cuda.cell_line import read_line

ADD = """%%cuda add
__global__ void add(float* x, int n) {
    int i = threadIdx.x;
    x[i] += n;
}
"""


class Notebook:
    """A shell that gives what a cell printed, and raises what it raised."""

    def __init__(self, shell: InteractiveShell, capsys: pytest.CaptureFixture[str]):
        self.shell, self._capsys = shell, capsys

    def run(self, text: str, cell_id: str | None = None) -> str:
        self._capsys.readouterr()
        result = self.shell.run_cell(text, cell_id=cell_id)
        result.raise_error()
        return self._capsys.readouterr().out

    def shown_error(self, text: str) -> str:
        """What the reader of the notebook sees of an error."""
        self._capsys.readouterr()
        result = self.shell.run_cell(text)
        assert not result.success
        return self._capsys.readouterr().out

    def __getitem__(self, name: str) -> object:
        return self.shell.user_ns[name]


@pytest.fixture
def notebook(capsys: pytest.CaptureFixture[str]) -> Iterator[Notebook]:
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    shell = InteractiveShell.instance(config=config)
    shell.run_line_magic("load_ext", "tinyvllm.cuda")
    shell.user_ns["torch"] = torch
    yield Notebook(shell, capsys)
    shell.reset(new_session=True)
    InteractiveShell.clear_instance()


# ---- what is bound ----


def test_a_named_kernel_is_bound_and_nothing_is_printed(notebook: Notebook):
    assert notebook.run(ADD) == ""
    assert isinstance(notebook["add"], Kernel)
    said = notebook.run("x = torch.zeros(2)\nadd(1, 2, (x, 3))\nprint(x)")
    assert said == "tensor([3., 3.])\n"


def test_without_a_name_every_kernel_is_bound(notebook: Notebook):
    notebook.run(
        "%%cuda\n__global__ void a(int* x) { x[0] = 1; }\n__global__ void b(int* x) { x[0] = 2; }"
    )
    assert (
        notebook.run("x = torch.zeros(1, dtype=torch.int32); b(1, 1, (x,)); print(x.item())")
        == "2\n"
    )
    assert isinstance(notebook["a"], Kernel)


def test_only_the_named_kernels_are_bound(notebook: Notebook):
    notebook.run(
        "%%cuda b\n__global__ void a(int* x) { x[0] = 1; }\n__global__ void b(int* x) { x[0] = 2; }"
    )
    assert isinstance(notebook["b"], Kernel) and "a" not in notebook.shell.user_ns


def test_an_instance_of_a_template_is_bound_under_the_kernels_name_or_a_given_one(
    notebook: Notebook,
):
    notebook.run(
        "%%cuda scale<float, 4> scale_int=scale<int, 5>\n"
        "template <typename T, int N> __global__ void scale(T* x) { x[0] *= N; }"
    )
    assert notebook.run("x = torch.ones(1); scale(1, 1, (x,)); print(x.item())") == "4.0\n"
    assert (
        notebook.run("x = torch.ones(1, dtype=torch.int32); scale_int(1, 1, (x,)); print(x.item())")
        == "5\n"
    )


@pytest.mark.parametrize(
    ("scalar", "dtype"), [("bf16", "bfloat16"), ("half", "half"), ("float", "float")]
)
def test_scalar_says_what_scalar_t_is(notebook: Notebook, scalar: str, dtype: str):
    notebook.run(
        f"%%cuda --scalar {scalar} one\n"
        "__global__ void one(scalar_t* x) { x[0] = scalar_t(1.0f); }"
    )
    assert (
        notebook.run(f"x = torch.zeros(1, dtype=torch.{dtype}); one(1, 1, (x,)); print(x.item())")
        == "1.0\n"
    )


def test_ipython_may_put_a_value_into_the_first_line(notebook: Notebook):
    notebook.run("dtype = 'bf16'")
    notebook.run(
        "%%cuda --scalar {dtype} one\n__global__ void one(scalar_t* x) { x[0] = scalar_t(1.0f); }"
    )
    assert (
        notebook.run("x = torch.zeros(1, dtype=torch.bfloat16); one(1, 1, (x,)); print(x.item())")
        == "1.0\n"
    )


def test_printf_shows_in_the_cell_that_launches(notebook: Notebook):
    notebook.run('%%cuda hi\n__global__ void hi() { printf("thread %d\\n", threadIdx.x); }')
    assert notebook.run("hi(1, 2, ())") == "thread 0\nthread 1\n"
    notebook.run('%%cuda --fast hi\n__global__ void hi() { printf("thread %d\\n", threadIdx.x); }')
    assert notebook.run("hi(1, 2, ())") == "thread 0\nthread 1\n"


def test_a_cell_may_include_the_packages_kernel_files(notebook: Notebook):
    notebook.run(
        '%%cuda f\n#include "device.cuh"\n'
        "__global__ void f(int* x) { x[0] = load_streaming(x + 1); }"
    )
    assert (
        notebook.run(
            "x = torch.tensor([1, 7], dtype=torch.int32); f(1, 1, (x,)); print(x[0].item())"
        )
        == "7\n"
    )


def test_running_a_cell_again_compiles_nothing(notebook: Notebook, monkeypatch: pytest.MonkeyPatch):
    notebook.run(ADD)
    monkeypatch.setattr(cuda_compiler, "_run_into", lambda *_: pytest.fail("compiled again"))
    notebook.run(ADD)
    assert notebook.run("x = torch.zeros(1); add(1, 1, (x, 2)); print(x.item())") == "2.0\n"


# ---- checked by default ----

RACE = """%%cuda{options} turn
__global__ void turn(float* x) {{
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = s[63 - threadIdx.x];
}}
"""


def test_a_kernel_is_checked_on_a_cpu(notebook: Notebook):
    notebook.run(RACE.format(options=""))
    with pytest.raises(KernelError, match=r"s\[\d+\].*\(line 4 of the cell of turn\)") as caught:
        notebook.run("turn(1, 64, (torch.zeros(64),))")
    assert caught.value.line == 4
    assert "   4 |     s[threadIdx.x] = x[threadIdx.x];" in str(caught.value)


def test_fast_leaves_the_check_out_and_check_stays_callable(notebook: Notebook):
    notebook.run(RACE.format(options=" --fast"))
    notebook.run("turn(1, 64, (torch.zeros(64),))")
    with pytest.raises(KernelError, match="line 4 of the cell of turn"):
        notebook.run("turn.check(1, 64, (torch.zeros(64),))")


def test_profile_stays_callable(notebook: Notebook):
    notebook.run(ADD)
    assert "x[i] += n;" in notebook.run("print(add.profile(1, 32, (torch.zeros(32), 1)))")


def test_a_crash_under_fast_is_an_error_with_the_cells_line(notebook: Notebook):
    notebook.run("%%cuda --fast far\n__global__ void far(float* x) {\n    x[1 << 30] = 1;\n}")
    with pytest.raises(KernelError, match=r"\(line 3 of the cell of far\)"):
        notebook.run("far(1, 1, (torch.zeros(1),))")


def test_a_kernels_error_shows_the_launch_and_no_frame_of_the_package(notebook: Notebook):
    notebook.run(ADD)
    said = notebook.shown_error("y = torch.zeros(2)\nadd(1, 3, (y, 1))")
    assert "----> 2 add(1, 3, (y, 1))" in said
    assert "y has" not in said and "x has 2 elements (line 4 of the cell of add)" in said
    assert "notebook.py" not in said and "module.py" not in said


def test_an_argument_error_shows_no_frame_of_the_package(notebook: Notebook):
    notebook.run(ADD)
    said = notebook.shown_error("add(1, 1, (torch.zeros(2), 'three'))")
    assert "TypeError" in said and "`n`" in said and "arguments.py" not in said


# ---- compile errors ----


def test_a_compile_error_has_the_cells_line_its_text_and_a_caret(notebook: Notebook):
    said = notebook.shown_error(ADD.replace("+= n", "+= count"))
    lines = said.splitlines()
    assert lines[0] == "the cell of add does not compile:"
    assert lines[2].startswith("line 4: ") and "count" in lines[2]
    assert lines[3] == "   4 |     x[i] += count;"
    assert lines[4] == "     |             ^"
    assert "Traceback" not in said and ".py" not in said


def test_lines_count_from_the_top_of_the_cell_also_with_blank_lines_above(notebook: Notebook):
    with pytest.raises(CompileError, match="line 6: "):
        notebook.run("\n\n" + ADD.replace("+= n", "+= count"))


def test_a_caret_stands_right_behind_tabs_and_letters_of_two_bytes(notebook: Notebook):
    said = notebook.shown_error("%%cuda f\n__global__ void f(float* x) {\n\t/* é */ x[0] = y;\n}")
    text, caret = said.splitlines()[3:5]
    assert text == "   3 |     /* é */ x[0] = y;" and caret.index("^") == text.index("y;")


def test_a_macro_of_the_emulator_does_not_hide_the_line(notebook: Notebook):
    said = notebook.shown_error('%%cuda f\n__global__ void f(float* x) {\n    asm("nop;");\n}')
    assert "line 3: " in said and '   3 |     asm("nop;");' in said
    assert "inline PTX is outside the language subset" in said and "host" not in said


def test_many_errors_are_cut_off(notebook: Notebook):
    body = "\n".join(f"    x[0] = y{i};" for i in range(9))
    said = notebook.shown_error(f"%%cuda f\n__global__ void f(float* x) {{\n{body}\n}}")
    assert said.count("^") == 5 and "... and 4 more errors" in said


def test_a_cell_that_does_not_compile_leaves_the_old_binding(notebook: Notebook):
    notebook.run(ADD)
    old = notebook["add"]
    notebook.shown_error(ADD.replace("+= n", "+= count"))
    assert notebook["add"] is old


# ---- exercises ----


def test_an_untouched_exercise_says_that_it_is_to_do(notebook: Notebook):
    stub = ADD.replace("%%cuda add\n", "%%cuda add\n//| exercise 3.2 points=3\n").replace(
        "    x[i] += n;", '#error "exercise 3.2: your code goes here"'
    )
    said = notebook.shown_error(stub)
    assert said.strip() == (
        "exercise 3.2 is still to do: write your code in place of line 5 (#error ...)"
        " and run the cell"
    )
    with pytest.raises(NotImplementedError) as caught:
        notebook.run(stub)
    assert type(caught.value) is NotImplementedError and str(caught.value) == "exercise 3.2"


def test_directives_and_solution_markers_are_comments_and_lines_stay(notebook: Notebook):
    cell = ADD.replace(
        "%%cuda add\n", "%%cuda add\n//| exercise 3.2 points=3\n//| promote kernels/x.cu\n"
    )
    cell = cell.replace(
        "    x[i] += n;", "    // BEGIN SOLUTION\n    x[i + 1] += n;\n    // END SOLUTION"
    )
    notebook.run(cell)
    with pytest.raises(KernelError, match=r"\(line 7 of the cell of exercise 3.2\)"):
        notebook.run("add(1, 1, (torch.zeros(1), 1))")


def test_a_wrong_directive_is_said_in_words(notebook: Notebook):
    with pytest.raises(CellError, match=r"there is no directive `#\| exercize`"):
        notebook.run(ADD.replace("%%cuda add\n", "%%cuda add\n//| exercize 3.2\n"))


# ---- cells of one module ----

HALVED = """%%cuda
//| promote kernels/x.cu
#include <stdio.h>
__device__ float halved(float x) { return x / 2; }
"""
USES = """%%cuda half_it
//| promote kernels/x.cu
__global__ void half_it(float* x) {
    extern __shared__ float s[];
    s[0] = halved(x[0]);
    x[0] = s[0];
}
"""
RUN = "x = torch.ones(1); half_it(1, 1, (x,), shared_mem=4); print(x.item())"


def test_a_promoted_cell_sees_the_earlier_cells_of_its_module_as_they_last_ran(notebook: Notebook):
    notebook.run(HALVED, cell_id="a")
    notebook.run(USES, cell_id="b")
    assert notebook.run(RUN) == "0.5\n"
    notebook.run(HALVED.replace("x / 2", "x / 4"), cell_id="a")
    notebook.run(USES, cell_id="b")
    assert notebook.run(RUN) == "0.25\n"


def test_a_cell_of_another_module_or_of_none_does_not_see_them(notebook: Notebook):
    notebook.run(HALVED, cell_id="a")
    for other in (USES.replace("x.cu", "y.cu"), USES.replace("//| promote kernels/x.cu", "")):
        with pytest.raises(CompileError, match="halved"):
            notebook.run(other, cell_id="b")


def test_without_ids_a_cell_replaces_what_defines_the_same_names(notebook: Notebook):
    notebook.run(HALVED)
    notebook.run(HALVED.replace("x / 2", "x / 4"))
    notebook.run(USES)
    notebook.run(USES)
    assert notebook.run(RUN) == "0.25\n"


def test_a_fault_in_an_earlier_cell_names_that_cell(notebook: Notebook):
    stores = "__device__ void store(float* x, int i) { x[i] = 1; }"
    notebook.run(f"%%cuda\n//| exercise 3.1\n//| promote kernels/x.cu\n{stores}")
    notebook.run("%%cuda f\n//| promote kernels/x.cu\n__global__ void f(float* x) { store(x, 2); }")
    with pytest.raises(KernelError, match=r"\(line 4 of the cell of exercise 3\.1\)") as caught:
        notebook.run("f(1, 1, (torch.zeros(2),))")
    assert caught.value.line == 4


# ---- the first line ----


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--scalar bf17 f", "--scalar takes bf16, half or float, not 'bf17'"),
        ("f --scalar", "--scalar takes bf16, half or float"),
        ("--quick f", "%%cuda has no option --quick"),
        ("scale<float", "brackets"),
        ("scale<float> scale<int>", "two kernels would be bound as `scale`"),
        ("f.g", "no name of a kernel"),
        ("lambda", "Python can't bind the name `lambda`"),
    ],
)
def test_a_first_line_that_makes_no_sense_is_said_in_words(line: str, words: str):
    with pytest.raises(CellError) as caught:
        read_line(line)
    assert words in str(caught.value)


def test_a_name_that_the_cell_does_not_have_is_said_with_those_it_has(notebook: Notebook):
    said = notebook.shown_error(ADD.replace("%%cuda add", "%%cuda subtract"))
    assert said.strip() == "the cell of subtract has no kernel called 'subtract'; it has: add"


def test_a_template_without_types_is_refused_in_words(notebook: Notebook):
    cell = "{}\ntemplate <typename T> __global__ void scale(T* x) {{ x[0] *= 2; }}"
    assert "`%%cuda scale<float>`" in notebook.shown_error(cell.format("%%cuda"))
    assert "scale is a template: say which one" in notebook.shown_error(cell.format("%%cuda scale"))


# ---- how it comes into a notebook ----


def test_loading_twice_keeps_what_ran(notebook: Notebook):
    notebook.run(HALVED, cell_id="a")
    notebook.run("%load_ext tinyvllm.cuda\n%reload_ext tinyvllm.cuda")
    notebook.run(USES, cell_id="b")
    assert notebook.run(RUN) == "0.5\n"


def test_the_kernels_message_gives_the_cell_where_there_was_no_event(notebook: Notebook):
    cell = "\n\n" + ADD.replace("+= n", "+= count")
    parent = {"content": {"code": cell}, "metadata": {"cellId": "a"}}
    shell = SimpleNamespace(get_parent=lambda: parent, user_ns={})
    from tinyvllm.cuda.notebook import CudaMagic

    with pytest.raises(CompileError, match="line 6: "):
        CudaMagic(shell).cuda("add", cell.split("\n", 3)[3])
