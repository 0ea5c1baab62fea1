"""A report's document: what it says, that it is well formed, and that it needs nothing beside it."""

import base64
import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fedgrid.tracking.report.page import Page, PageSection
from fedgrid.tracking.report.report_files import write_report_files
from fedgrid.tracking.tables.table import NONE, Cell, Column, Row, Table
from tests.helpers.demo_page import ALGORITHMS, SPLITS, WORST_NAME, make_demo_page, make_plate

Element = ElementTree.Element


def parsed(folder: Path) -> Element:
    """Read the document as XML, which forgives nothing; style and script are not markup."""
    text = (folder / "index.html").read_text(encoding="utf-8")
    return ElementTree.fromstring(re.sub(r"(<(style|script)>).*?(</\2>)", r"\1\3", text, flags=re.DOTALL))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    write_report_files(make_demo_page("mnist", "cifar10"), folder)
    return folder


@pytest.fixture(scope="module")
def document(demo: Path) -> Element:
    return parsed(demo)


def table_of(tmp_path: Path, *rows: Row, columns: tuple[Column, ...], **notes: str) -> Element:
    table = Table("t", "Title", "Caption.", columns, rows, "name", notes)
    write_report_files(Page("Report", (), (PageSection("s", "PageSection", items=(table,)),)), tmp_path)
    found = parsed(tmp_path).find(".//figure")
    assert found is not None
    return found


def text(element: Element) -> str:
    return " ".join("".join(element.itertext()).split())


def texts(element: Element, path: str) -> list[str]:
    return [text(found) for found in element.findall(path)]


def test_the_head_has_the_title_and_the_facts(document):
    assert text(document.find(".//h1")) == "Clustering <federated> clients: 'paper'"
    assert texts(document, ".//dt") == ["grid", "runs", "rounds", "commit", "figures"]
    assert texts(document, ".//dd")[1] == "278 of 280"
    assert texts(document, ".//dd")[4] == "7 of 9 drawn; all with --all-figures"
    assert document.get("lang") == "en"


def test_headings_skip_no_level_and_every_anchor_is_there_once(document):
    levels = [int(element.tag[1]) for element in document.iter() if re.fullmatch(r"h\d", element.tag)]
    assert levels == [1, 2, 2, 3, 3, 2, 3, 3]
    ids = Counter(element.get("id") for element in document.iter() if element.get("id"))
    assert set(ids.values()) == {1}
    targets = {link.get("href")[1:] for link in document.iter("a") if link.get("href").startswith("#")}
    named = {element.get("aria-labelledby") for element in document.iter() if element.get("aria-labelledby")}
    assert targets | named <= set(ids)
    links = [link.get("href") for link in document.findall(".//nav//a")]
    assert links == [f"#{section.get('id')}" for section in document.iter("section")]


def test_nothing_is_fetched_and_every_file_linked_to_is_there(demo, document):
    sources = [element.get("src") for element in document.iter() if element.get("src")]
    links = [element.get("href") for element in document.iter() if element.get("href")]
    assert all(source.startswith("data:image/svg+xml;base64,") for source in sources)
    files = {link for link in links if not link.startswith(("#", "data:"))}
    assert files == {path.relative_to(demo).as_posix() for path in demo.glob("*/*")}
    assert "default-src 'none'" in document.find(".//meta[@http-equiv]").get("content")


def test_the_document_embeds_a_figure_with_the_bytes_of_its_file(demo, document):
    """4.2 x 2.6 inches, 1.3 times as large, are 524 x 324 pixels of 1/96 inch."""
    image = document.find(".//figure[@id='figure-temperature-mnist']//img")
    svg = base64.b64decode(image.get("src").split(",")[1])
    assert svg == (demo / "figures" / "temperature-mnist.svg").read_bytes()
    assert (image.get("width"), image.get("height"), image.get("loading")) == ("524", "324", "lazy")
    figure = make_plate("temperature-mnist")
    assert image.get("alt") == f"{figure.title}. {figure.caption}"


def test_columns_of_a_group_share_a_heading(document):
    table = document.find(".//figure[@id='table-table1-mnist']//table")
    top, below = table.findall("thead/tr")
    assert [(text(th), th.get("scope"), th.get("colspan")) for th in top] == [
        ("algorithm", "col", None),
        *((split, "colgroup", "3") for split in SPLITS),
    ]
    assert [text(th) for th in below] == ["RAND", "AMI", "COM"] * 4
    assert [th.get("data-column") for th in (top[0], *below)] == [str(index) for index in range(13)]
    assert texts(table, "tbody/tr/th[@scope='row']") == list(ALGORITHMS)


def test_the_heading_of_a_column_without_a_group_spans_both_rows(tmp_path):
    columns = (Column("alone"), Column("one", "pair"), Column("two", "pair"))
    found = table_of(tmp_path, Row("a", (Cell("1"), Cell("2"), Cell("3"))), columns=columns)
    top, below = found.findall(".//thead/tr")
    assert [(text(th), th.get("rowspan")) for th in top] == [("name", "2"), ("alone", "2"), ("pair", None)]
    assert [text(th) for th in below] == ["one", "two"]


def test_sections_of_rows_have_a_body_each_and_text_that_looks_like_markup_is_escaped(document):
    table = document.find(".//figure[@id='table-summary']//table")
    assert [len(body) for body in table.findall("tbody")] == [4, 3]
    assert texts(table, "tbody/tr/th[@scope='rowgroup']") == ["15 clients", "30 clients"]
    assert texts(table, "tbody/tr/th[@scope='row']")[1] == WORST_NAME


def test_a_cell_has_its_value_in_full_digits_and_its_tone_as_class(tmp_path):
    cells = (
        Cell("0.33", 1 / 3, bold=True),
        Cell("0.95", 0.95, tone="better"),
        Cell("0.10 (2/3)", 0.1, tone="partial"),
        Cell(NONE),
        Cell(),
    )
    found = table_of(tmp_path, Row("a", cells), columns=tuple(map(Column, "abcde")))
    bold, better, partial, dash, empty = found.findall(".//td")
    assert (bold.get("data-value"), text(bold.find("strong"))) == ("0.3333333333333333", "0.33")
    assert better.get("class") == "better"
    assert (partial.get("class"), text(partial.find("span")), text(partial)) == (
        "partial",
        "(2/3)",
        "0.10 (2/3)",
    )
    assert (dash.get("data-value"), text(dash)) == (None, NONE)
    assert (empty.get("class"), empty.get("title"), text(empty)) == ("empty", "no result yet", "")
    assert texts(found, "p[@class='legend']/span") == ["better", "only some of the runs", "no result yet"]


def test_numbers_of_a_column_are_aligned_at_their_end(tmp_path):
    """Behind the numbers of a column there is room for the longest of what follows them: `± 0.10`."""
    rows = [Row("a", (Cell("0.5", 0.5),)), Row("b", (Cell("9.5 ± 0.10", 9.5),)), Row("c", (Cell(NONE),))]
    found = table_of(tmp_path, *rows, columns=(Column("x"),))
    rooms = [(text(room), room.get("style")) for room in found.findall(".//td/span")]
    assert rooms == [("", "--room: 6"), ("± 0.10", "--room: 6"), ("", "--room: 6")]


def test_cells_of_words_are_not_split_into_number_and_tail(tmp_path):
    found = table_of(tmp_path, Row("a", (Cell("30 of 50 rounds"),)), columns=(Column("state"),))
    cell = found.find(".//td")
    assert (cell.get("class"), text(cell), cell.findall("span")) == ("words", "30 of 50 rounds", [])


def test_a_note_leads_back_to_its_first_mention(tmp_path):
    rows = (
        Row("a", (Cell("1", 1.0, notes=("x",)), Cell("2", 2.0, notes=("x", "y")))),
        Row("b", (Cell("3", 3.0), Cell("4", 4.0)), notes=("y",)),
    )
    columns = (Column("one", notes=("z",)), Column("two"))
    found = table_of(tmp_path, *rows, columns=columns, z="Heading.", x="First.", y="Second.", w="Unused.")
    marks = [(text(link), link.get("href"), link.get("id")) for link in found.findall(".//sup/a")]
    assert marks == [
        ("z", "#t-note-z", "t-mark-z"),
        ("x", "#t-note-x", "t-mark-x"),
        ("x", "#t-note-x", None),
        ("y", "#t-note-y", "t-mark-y"),
        ("y", "#t-note-y", None),
    ]
    notes = [(note.get("id"), [a.get("href") for a in note.findall("a")]) for note in found.findall("ol/li")]
    assert notes == [
        ("t-note-z", ["#t-mark-z"]),
        ("t-note-x", ["#t-mark-x"]),
        ("t-note-y", ["#t-mark-y"]),
        ("t-note-w", []),
    ]


def test_a_choice_shows_its_first_option_and_contains_all(document):
    choice = document.find(".//section[@id='mnist']//div[@class='choice']")
    assert (
        texts(choice, "fieldset/label")
        == texts(choice, "div/p[@class='label']")
        == ["as published", "all rounds"]
    )
    assert [radio.get("checked") for radio in choice.iter("input")] == ["checked", None]
    assert [option.get("class") for option in choice.findall("div")] == ["option shown", "option"]
    radios = Counter(radio.get("name") for radio in document.iter("input"))
    assert list(radios.values()) == [2] * 4


def test_a_figure_that_is_not_the_first_of_a_choice_says_how_to_draw_it(demo, document):
    figure = document.find(".//figure[@id='figure-norm-mnist']")
    assert "--all-figures" in text(figure)
    assert make_plate("norm-mnist", 0.4).caption in text(figure)
    assert figure.find(".//img") is None
    assert not (demo / "figures" / "norm-mnist.svg").exists()


def test_the_latex_to_copy_is_that_of_the_file(demo, document):
    kept = document.find(".//figure[@id='table-summary']/template")
    assert "".join(kept.itertext()) == (demo / "tables" / "summary.tex").read_text(encoding="utf-8")
