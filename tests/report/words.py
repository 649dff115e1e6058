"""What a report says in words, and its page, without the drawing."""

from attnscope_py import comparisons, page, summary


def leading(sections, run):
    """The statements that a report of these sections leads with, of one run."""
    found = summary.parts(sections, comparisons.crossovers(sections), run)
    return found[0].statements if found else []


def page_of(runs, sections, chapters=()):
    crossed = comparisons.crossovers(sections)
    summaries = [(run, summary.parts(sections, crossed, run)) for run in runs]
    return page.render(runs, summaries, summary.warnings(runs), chapters, sections, crossed).decode()
