"""A cell's text: directives, stubs, and the module that it becomes part of."""

import pytest

from tinyvllm.course.cells import Cell, CellError
from tinyvllm.course.modules import join_parts, module_texts, part_lines

EXERCISE = """#| exercise 5.2 points=3 seconds=90
#| promote ops/rope.py
def turn(x):
    # half by half
    ### BEGIN SOLUTION
    y = x + 1
    return y
    ### END SOLUTION
"""
KERNEL = """%%cuda turn
//| exercise 5.3
//| promote kernels/rope.cu
__global__ void turn(float* x) {
    // BEGIN SOLUTION
    x[0] = 1;
    // END SOLUTION
}"""


def test_directives_are_read_from_the_text():
    cell = Cell("code", EXERCISE)
    assert (cell.exercise, cell.promote) == ("5.2", "ops/rope.py")
    assert cell.options == {"points": 3, "seconds": 90}
    assert not cell.is_cuda and not cell.is_support


def test_directives_stand_below_the_magic_of_a_cuda_cell():
    cell = Cell("code", KERNEL)
    assert cell.magic == "%%cuda turn" and cell.is_cuda
    assert (cell.exercise, cell.promote) == ("5.3", "kernels/rope.cu")


def test_a_comment_or_blank_line_above_hides_no_directive():
    cell = Cell("code", "\n# my notes\n\n#| exercise 1.1\nx = 1")
    assert cell.exercise == "1.1" and cell.body == "# my notes\n\nx = 1"


def test_a_directive_below_code_is_only_a_comment():
    assert Cell("code", "x = 1\n#| exercise 1.1").exercise is None


def test_markdown_has_no_directives():
    assert Cell("markdown", "#| exercise 1.1").exercise is None


def test_the_stub_keeps_everything_but_the_solution():
    assert Cell("code", EXERCISE).stub().text == (
        "#| exercise 5.2 points=3 seconds=90\n"
        "#| promote ops/rope.py\n"
        "def turn(x):\n"
        "    # half by half\n"
        '    raise NotImplementedError("exercise 5.2")\n'
    )


def test_the_stub_of_a_kernel_does_not_compile_and_names_its_exercise():
    stub = Cell("code", KERNEL).stub()
    assert '\n#error "exercise 5.3: your code goes here"\n}' in stub.text
    assert stub.is_stub and not Cell("code", KERNEL).is_stub


def test_a_stub_that_was_commented_out_is_a_stub_no_more():
    text = '#| exercise 1.1\n# raise NotImplementedError("exercise 1.1")\nx = 1'
    assert not Cell("code", text).is_stub


@pytest.mark.parametrize(
    "text",
    [
        "#| exercise five",
        "#| exercise 5.2 point=3",
        "#| exercise 5.2 points=many",
        "#| exercise 5.2 points=0",
        "#| exercise 5.2\n#| exercise 5.3",
        "#| promote /etc/passwd",
        "#| promote ../llm.py",
        "#| promote Ops.py",
        "#| promote kernels/rope.cu",
        "%%cuda turn\n//| promote ops/rope.py",
        "#| promot ops/rope.py",
    ],
)
def test_a_wrong_directive_is_refused(text: str):
    cell = Cell("code", text)
    with pytest.raises(CellError):
        _ = cell.exercise, cell.options, cell.promote


@pytest.mark.parametrize(
    "text", ["### BEGIN SOLUTION\nx", "### END SOLUTION", "### BEGIN SOLUTION\n### BEGIN SOLUTION"]
)
def test_markers_that_are_no_pair_are_refused(text: str):
    with pytest.raises(CellError):
        Cell("code", "#| exercise 1.1\n" + text).stub()


def test_cells_of_a_module_are_joined_in_order_and_nothing_is_reformatted():
    cells = [
        Cell("code", '#| promote ops/rope.py\n"""RoPE."""\n\nimport math\n\n'),
        Cell("markdown", "prose"),
        Cell("code", KERNEL),
        Cell("code", EXERCISE),
    ]
    assert module_texts(cells, "a note") == {
        "ops/rope.py": '# a note\n"""RoPE."""\n\nimport math\n\n\n'
        "def turn(x):\n    # half by half\n    y = x + 1\n    return y\n",
        "kernels/rope.cu": "// a note\n__global__ void turn(float* x) {\n    x[0] = 1;\n}\n",
    }


@pytest.mark.parametrize("path", ["a.py", "a.cu"])
def test_each_line_of_a_module_is_found_in_its_part(path: str):
    parts = ["one\ntwo", "", "three", "four\nfive"]
    lines = join_parts(path, parts, "note").split("\n")
    for part, (first, last) in zip(parts, part_lines(path, parts)):
        assert "\n".join(lines[first - 1 : last]) == part
