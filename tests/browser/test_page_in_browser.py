"""The page as a reader meets it: in a real browser, with its figures drawn."""

import json
import threading
import time

import pytest
from chromium import open_browser, read_console, read_requests
from run_folders import make_analysis, write_run

from torch_grama.report.page import write_page
from torch_grama.report.watch_server import WatchServer
from torch_grama.runs.run_files import read_run_files

pytestmark = pytest.mark.slow

EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def chrome():
    with open_browser() as chrome:
        yield chrome


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    runs = [write_run(folder / "first"), write_run(folder / "second", test=0.8, model=EVIL)]
    return write_page([read_run_files(run) for run in runs], folder / "report.html")


@pytest.fixture
def page(chrome, path):
    read_console(chrome)
    read_requests(chrome)
    # by way of an empty page: the browser keeps scrolled places of a page that it loads again
    chrome.get("about:blank")
    chrome.get(path.as_uri())
    wait_for(chrome, "return document.readyState === 'complete'")
    return chrome


def wait_for(chrome, script, *arguments):
    """Waits until a script returns something true, and returns it."""
    deadline = time.monotonic() + 600  # a busy machine is no failure
    while time.monotonic() < deadline:
        if found := chrome.execute_script(script, *arguments):
            return found
        time.sleep(0.02)
    raise AssertionError(f"never came true: {script}")


def show(chrome, name):
    """Scrolls to a figure and waits until it is drawn."""
    chrome.execute_script(
        "document.getElementById(arguments[0]).scrollIntoView({behavior: 'instant'})", name
    )
    wait_for(chrome, "return document.querySelector(`#${arguments[0]} svg *`)", name)


def set_slider(chrome, selector, value):
    chrome.execute_script(
        "const slider = document.querySelector(arguments[0]); slider.value = arguments[1];"
        "slider.dispatchEvent(new Event('input'))",
        selector,
        str(value),
    )


def press(chrome, selector):
    element = chrome.find_element("css selector", selector)
    chrome.execute_script(
        "arguments[0].scrollIntoView({behavior: 'instant', block: 'center'})", element
    )
    element.click()


def names_of_figures(chrome):
    return chrome.execute_script(
        "return [...document.querySelectorAll('.plot')].map((plot) => plot.id)"
    )


def test_every_figure_is_drawn_without_a_word_of_complaint_or_a_request(page):
    names = names_of_figures(page)
    assert len(names) > 15
    for name in names:
        show(page, name)
    assert read_console(page) == []
    requests = [address for address in read_requests(page) if not address.startswith("data:")]
    assert len(requests) == 1
    assert requests[0].endswith("report.html")


def places(page, name):
    """Where the marks of a figure are, in pixels of its drawing."""
    return page.execute_script(
        "return [...document.querySelectorAll(`#${arguments[0]} .open, #${arguments[0]} .mark`)]"
        ".map((mark) => { const {e, f} = mark.transform.baseVal[0].matrix; return [e, f]; })",
        name,
    )


def test_the_slider_moves_the_poles(page):
    show(page, "poles-0")
    final = places(page, "poles-0")
    set_slider(page, "[data-views='poles-0']", 0)
    first = places(page, "poles-0")
    # two blocks with the same pair of poles: on each other, and one above the other
    assert [x for x, _ in first] == [first[0][0]] * 4
    assert [y for _, y in first[:2]] == [y for _, y in first[2:]]
    assert first[0][1] < first[1][1]
    assert len(final) == 8
    label = page.execute_script("return document.querySelector('[data-label=poles-0]').textContent")
    assert label == "epoch 1"


def test_the_slider_is_moved_by_the_keyboard(page):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    show(page, "poles-0")
    slider = page.find_element(By.CSS_SELECTOR, "[data-views='poles-0']")
    before = slider.get_attribute("value")
    slider.send_keys(Keys.ARROW_LEFT)
    assert int(slider.get_attribute("value")) == int(before) - 1
    assert slider.get_attribute("aria-valuetext") == "epoch 10"


def test_play_runs_to_the_end(page):
    show(page, "poles-0")
    set_slider(page, "[data-views='poles-0']", 8)
    page.execute_script("document.querySelector('[data-play=poles-0]').click()")
    wait_for(page, "return document.querySelector('[data-views=poles-0]').value === '10'")
    wait_for(page, "return document.querySelector('[data-play=poles-0]').textContent === '▶'")


def test_the_list_changes_the_heat_map(page):
    show(page, "coefficients-0")
    cells = "return document.querySelectorAll('#coefficients-0 g rect').length"
    assert page.execute_script(cells) == 2 * 4  # blocks and coefficients
    set_slider(page, "select[data-views='coefficients-0']", 3)
    assert page.execute_script(cells) == 10 * 4  # epochs


def test_a_click_on_a_node_shows_its_influence(page):
    from selenium.webdriver.common.action_chains import ActionChains

    show(page, "example-0")
    levels = (
        "return [...document.querySelectorAll('#example-0 .node')]"
        ".map((node) => node.getAttribute('fill'))"
    )
    words = (
        "return document.querySelector('[data-example=example-0] [data-role=words]').textContent"
    )
    before, said = page.execute_script(levels), page.execute_script(words)
    assert said.startswith("Node 4,")
    point = page.execute_script(
        "const plot = document.getElementById('example-0');"
        "plot.scrollIntoView({behavior: 'instant', block: 'center'});"
        "const marks = plot.querySelectorAll('.node');"
        "const box = marks[marks.length - 1].getBoundingClientRect();"
        "return [box.x + box.width / 2, box.y + box.height / 2]"
    )
    chain = ActionChains(page)
    chain.w3c_actions.pointer_action.move_to_location(round(point[0]), round(point[1]))
    chain.w3c_actions.pointer_action.pause(0.2)
    chain.w3c_actions.pointer_action.click()
    chain.perform()
    wait_for(page, f"return (() => {{ {words} }})().startsWith('Node 7,')")
    assert page.execute_script(levels) != before


def test_a_node_is_chosen_from_the_list_too_and_steps_follow(page):
    show(page, "example-0")
    box = "[data-example=example-0] [data-role=node]"
    set_slider(page, box, 1)
    set_slider(page, "[data-example=example-0] [data-role=step]", 0)
    words = (
        "return document.querySelector('[data-example=example-0] [data-role=words]').textContent"
    )
    assert page.execute_script(words).startswith("Node 5, embedding: 1 of 4 nodes")
    set_slider(page, "[data-example=example-0] [data-role=step]", 1)
    assert "3 of 4 nodes" in page.execute_script(words)
    assert "the furthest 1 hop away" in page.execute_script(words)


def column(page, index):
    """The cells of a column of the comparison: the number behind each, or its text."""
    return page.execute_script(
        "const cells = [...document.querySelectorAll('#comparison tbody tr')]"
        ".map((row) => row.cells[arguments[0]]);"
        "return cells.map((cell) => cell.dataset.value ?? cell.textContent)",
        index,
    )


def test_a_long_table_opens_at_the_runs_of_the_page(page):
    inside = page.execute_script(
        "const box = document.querySelector('.scroll.tall').getBoundingClientRect();"
        "const row = document.querySelector('.scroll.tall tr.ours').getBoundingClientRect();"
        "return box.top <= row.top && row.bottom <= box.bottom"
    )
    assert inside
    height = "const box = document.querySelector('.scroll.tall'); return box."
    assert page.execute_script(height + "scrollHeight") > page.execute_script(
        height + "clientHeight"
    )


def test_the_table_sorts(page):
    numbers = [float(value) for value in column(page, 2) if value]
    assert numbers == sorted(numbers, reverse=True)  # the best first
    press(page, "#comparison thead th:nth-child(3) button")
    numbers = [float(value) for value in column(page, 2) if value]
    assert numbers == sorted(numbers)
    head = page.find_element("css selector", "#comparison thead th:nth-child(3)")
    assert head.get_attribute("aria-sort") == "ascending"
    # the unknown stays last, whichever way
    press(page, "#comparison thead th:nth-child(6) button")
    assert [bool(value) for value in column(page, 5)] == sorted(
        (bool(value) for value in column(page, 5)), reverse=True
    )
    press(page, "#comparison thead th:nth-child(1) button")
    names = [name.strip().lower() for name in column(page, 0)]
    assert names[0] <= names[-1]


def test_the_theme_is_switched_and_the_figures_with_it(page):
    show(page, "losses")
    page.execute_script("document.getElementById('losses').scrollIntoView({behavior: 'instant'})")
    ink = "return getComputedStyle(document.querySelector('#losses text')).fill"
    paper = "return getComputedStyle(document.body).backgroundColor"
    seen = set()
    for _ in range(3):
        page.execute_script("document.getElementById('theme').click()")
        theme = page.execute_script("return document.documentElement.dataset.theme")
        if theme:
            seen.add((theme, page.execute_script(ink), page.execute_script(paper)))
    assert len(seen) == 2
    assert len({color for _, color, _ in seen}) == len({color for _, _, color in seen}) == 2


def test_dark_follows_the_system(page):
    show(page, "losses")
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    try:
        stroke = "return getComputedStyle(document.querySelector('#losses .curve')).stroke"
        assert page.execute_script(stroke) == "rgb(86, 180, 233)"
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


@pytest.mark.parametrize("width", [320, 390, 768])
def test_nothing_sticks_out_on_a_small_screen(page, width):
    screen = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    try:
        page.refresh()
        for name in ("losses", "poles-0", "example-0"):
            show(page, name)
        assert page.execute_script("return document.documentElement.scrollWidth") <= width
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_wide_table_says_that_it_scrolls(page):
    told = "return getComputedStyle(arguments[0], '::before').content"
    table = page.find_element("css selector", "#dynamics .scroll")
    assert page.execute_script(told, table) == "none"
    screen = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    try:
        wait_for(page, "return arguments[0].classList.contains('wide')", table)
        assert "Scroll sideways" in page.execute_script(told, table)
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_pointer_names_a_value_and_a_frame_zooms(page):
    from selenium.webdriver.common.action_chains import ActionChains

    show(page, "metric-0")
    page.execute_script(
        "document.getElementById('metric-0').scrollIntoView({behavior: 'instant', block: 'center'})"
    )
    plot = page.find_element("css selector", "#metric-0 svg")
    best = page.find_element("css selector", "#metric-0 .mark")
    ActionChains(page).move_to_element(best).perform()
    tip = page.find_element("css selector", "#metric-0 .tip").text
    assert "epoch 10: 86" in tip
    labels = "return [...document.querySelectorAll('#metric-0 text')].map((t) => t.textContent)"
    whole = page.execute_script(labels)
    actions = ActionChains(page).move_to_element(plot).click_and_hold()
    actions.move_by_offset(120, 60).release().perform()
    assert page.execute_script(labels) != whole
    ActionChains(page).double_click(page.find_element("css selector", "#metric-0 svg")).perform()
    assert page.execute_script(labels) == whole


def test_a_name_below_a_figure_hides_its_curve(page):
    show(page, "losses")
    curves = "return document.querySelectorAll('#losses .curve').length"
    assert page.execute_script(curves) == 4
    press(page, "[data-figure=losses] .legend button")
    assert page.execute_script(curves) == 3
    button = page.find_element("css selector", "[data-figure=losses] .legend button")
    assert button.get_attribute("aria-pressed") == "false"


def test_an_error_bar_on_a_logarithmic_axis_does_not_plunge(chrome, tmp_path):
    folder = write_run(tmp_path / "run")
    analysis = make_analysis()
    analysis["influence"] = {
        "model": analysis["influence"]["model"] | {"total_error": [0.0, 0.0, 0.0, 0.0, 0.2]}
    }
    (folder / "analysis.json").write_text(json.dumps(analysis))
    chrome.get(write_page([read_run_files(folder)], tmp_path / "report.html").as_uri())
    show(chrome, "influence-total")
    sizes = chrome.execute_script(
        "const bar = document.querySelector('#influence-total .error').getBBox();"
        "const mark = [...document.querySelectorAll('#influence-total .mark')].at(-1);"
        "return [bar.y, mark.transform.baseVal[0].matrix.f, bar.y + bar.height]"
    )
    top, middle, bottom = sizes
    # an error larger than the value reaches as far down as up
    assert bottom - middle == pytest.approx(middle - top, abs=1)


def test_all_is_open_and_light_in_print(page):
    dark = {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    page.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    assert page.execute_script(
        "return [...document.querySelectorAll('details')].every((item) => item.open)"
    )
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    try:
        stroke = "return getComputedStyle(document.querySelector('#losses .curve')).stroke"
        assert page.execute_script(stroke) == "rgb(0, 114, 178)"
        # paper does not scroll: tables fit, and none says that it scrolls
        paper = {"width": 718, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
        page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", paper)
        cut = page.execute_script(
            "return [...document.querySelectorAll('.scroll')].filter((box) => "
            "box.scrollWidth > box.clientWidth || "
            "getComputedStyle(box, '::before').content.includes('Scroll'))"
            ".map((box) => box.closest('section').id)"
        )
        assert cut == []
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


def test_the_server_shows_its_list_and_renews_it(chrome, tmp_path):
    write_run(tmp_path / "runs" / "first", finished=False, analysis=False)
    with WatchServer(tmp_path / "runs") as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            read_console(chrome)
            chrome.get(server.address)
            assert "first" in chrome.find_element("id", "list").text
            write_run(tmp_path / "runs" / EVIL, analysis=False)
            wait_for(chrome, "return document.getElementById('list').textContent.includes('<img')")
            chrome.find_element("css selector", "input[type=checkbox]").click()
            chrome.find_element("css selector", "form button").click()
            wait_for(chrome, "return document.querySelector('#summary .card')")
            chrome.get(f"{server.address}run/first")
            show(chrome, "losses")
            assert read_console(chrome) == []
        finally:
            chrome.get("about:blank")
            server.shutdown()
            thread.join()
