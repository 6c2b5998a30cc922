"""The suite of wires: a provider that is right passes every check, and each check finds a bug of its own."""

from __future__ import annotations

import re

import pytest
import reference_bugs as bugs
from reference_provider import ReferenceProvider
from reference_suite import ReferenceSuite

from gnomon.errors import GnomonError
from gnomon.testing import Contract, ProviderContract, WireContract
from gnomon.testing._wire_suite import SOAK

RULES = Contract.__gnomon_contract__
CHECKS = sorted({*dir(WireContract)} - {*dir(ProviderContract)})


class TestReference(WireContract):
    """All of it, as anybody runs it."""

    wire = ReferenceSuite.wire
    connect = ReferenceSuite.connect
    make = ReferenceProvider


PLANTS: dict[str, list[tuple[type[ReferenceProvider], str]]] = {
    "test_every_reply_gives_what_its_file_says": [
        (bugs.RoutesByNumberOnly, "tools_reused_index"),
        (bugs.SumsUsage, "usage_every_chunk: usage: expected .*output_tokens=3.* found .*output_tokens=6"),
        (bugs.LosesSignature, "thinking: part 0: expected .*c2lnbmVk.* found"),
        (bugs.RefusesTheUnknown, "unknown_events: expected an answer, found BadReply"),
        (bugs.ChangesTheModel, "asks for no reply: the model of the request is to be sent as it is"),
        (bugs.PutsKeyInTheAddress, r"the key is in the URL: /answers\?key=<the key>"),
    ],
    "test_no_failure_and_no_log_of_one_shows_the_key": [
        (bugs.ShowsKey, "unauthorized: texts that show the key: .*No such key: <the key>"),
        (bugs.LogsKey, "unauthorized: texts that show the key: .*the service says .*<the key>"),
    ],
    "test_a_reply_may_be_split_anywhere": [
        (bugs.ReadsPieceByPiece, "unicode_split, split at "),
    ],
    "test_a_reply_may_come_byte_by_byte": [
        (bugs.ReadsPieceByPiece, "unicode_split, in pieces of 1"),
        (bugs.JoinsWhatCameTogether, "unicode_split, in pieces of 1"),
    ],
    "test_a_stream_may_be_written_in_any_legal_form": [
        (bugs.KnowsNoCR, "written with CR line ends"),
        (bugs.WantsASpace, "written with no space after the colon"),
        (bugs.TakesOneLineOfData, "written with data over several lines"),
    ],
    "test_a_form_may_be_split_as_well": [
        (bugs.ForgetsHalfALineEnd, "text, written with data over several lines with CRLF in pieces of 2"),
    ],
    "test_a_line_may_be_long": [
        (bugs.LimitsLines, "text, written with a comment of 10 MB: .*too long"),
    ],
    "test_a_reply_may_be_compressed": [
        (bugs.ForgetsToUnpack, "compressed with gzip"),
    ],
    "test_a_stream_that_is_cut_between_events_is_a_stream_cut": [
        (
            bugs.TakesAnyEndForTheEnd,
            r"cut after byte 0 \(ended\): expected the error stream_cut, found an answer",
        ),
    ],
    "test_a_stream_that_is_cut_inside_an_event_is_a_stream_cut": [
        (bugs.TakesTheRestForAnEvent, "expected the error stream_cut, found bad_reply"),
    ],
    "test_a_connection_that_breaks_is_a_stream_cut": [
        (bugs.LetsErrorsOfTheSystemThrough, r"\(reset\): expected the error stream_cut, found ContractError"),
    ],
    "test_a_tail_that_is_optional_may_be_missing": [
        (bugs.WaitsForTheCourtesy, r"expected an answer, found StreamCut"),
    ],
    "test_data_that_is_no_json_is_a_bad_reply": [
        (
            bugs.PassesOverWhatIsNoJSON,
            "text, garbled from byte .*expected the error bad_reply, found an answer",
        ),
    ],
    "test_a_connection_that_is_not_made_in_time_is_a_connect_timeout": [
        (bugs.without_limit("connect_s"), "longer than limit_s"),
        (bugs.OneErrorForAllLimits, "expected the error connect_timeout, found timeout"),
    ],
    "test_a_refused_connection_says_where_nobody_listens": [
        (
            bugs.SaysOnlyThatItFailed,
            "a refused connection: expected 127.0.0.1:.* in it, found reference: it failed",
        ),
    ],
    "test_an_answer_that_does_not_begin_is_a_first_byte_timeout": [
        (bugs.without_limit("first_byte_s"), "longer than limit_s"),
        (bugs.OneErrorForAllLimits, "expected the error first_byte_timeout, found timeout"),
    ],
    "test_an_answer_that_falls_silent_is_an_idle_timeout": [
        (bugs.without_limit("idle_s"), "longer than limit_s"),
        (bugs.OneErrorForAllLimits, "expected the error idle_timeout, found timeout"),
    ],
    "test_a_head_without_an_answer_is_a_timeout_too": [
        (bugs.without_limit("first_byte_s idle_s"), "longer than limit_s"),
    ],
    "test_an_answer_that_never_ends_is_a_total_timeout": [
        (bugs.without_limit("total_s"), "longer than limit_s"),
    ],
    "test_a_reader_who_rests_does_not_use_up_the_limit_of_silence": [
        (bugs.CountsTheReadersRest, "nothing within"),
    ],
    "test_an_answer_ends_with_its_last_event_not_with_the_connection": [
        (bugs.WaitsForTheEndOfTheConnection, "text, held open .*: expected Done at once, found 0.5"),
    ],
    "test_leaving_early_closes_the_connection": [
        (bugs.LeaksConnections, "text: left after event 1: expected the connection closed within a second"),
    ],
    "test_cancelling_closes_the_connection": [
        (bugs.LeaksWhenCancelled, "cancelled: expected the connection closed within a second"),
    ],
    "test_a_stream_read_to_its_end_leaves_the_connection_to_the_next": [
        (bugs.ConnectsAnew, "text: connections of five requests: expected 1, found 5"),
        (bugs.ClosesLate, r"connections open after close\(\): expected 0, found 1"),
    ],
    "test_nothing_is_read_ahead_of_the_reader": [
        (bugs.ReadsAhead, "were read while the reader rests"),
    ],
    "test_twenty_requests_at_the_same_time_do_not_mix": [
        (bugs.MixesAnswers, "beside 19 others"),
    ],
    "test_a_bare_status_is_the_error_that_stands_for_it": [
        (
            bugs.KnowsFewStatuses,
            "status 403 with no body: expected the error unauthorized, found bad_request",
        ),
    ],
    "test_a_rate_limit_says_when_to_come_back": [
        (bugs.KnowsSecondsOnly, "retry-after-ms: 1500: retry_after: expected 1.5, found None"),
    ],
    "test_a_page_in_place_of_an_answer_is_a_bad_reply": [
        (
            bugs.TakesAPageForAStream,
            "a page of HTML with status 200: expected the error bad_reply, found stream_cut",
        ),
    ],
    "test_an_error_under_status_200_is_the_error_it_says": [
        (
            bugs.TakesAPageForAStream,
            "the body of bad_request with status 200: expected the error bad_request",
        ),
    ],
    "test_an_answer_under_another_content_type_is_read": [
        (bugs.InsistsOnTheContentType, "under content type 'text/plain': expected an answer, found BadReply"),
    ],
    "test_an_empty_answer_is_a_stream_cut": [
        (bugs.TakesNothingForAnAnswer, "an empty body .*: expected the error stream_cut, found an answer"),
    ],
    "test_a_redirect_is_a_bad_reply_and_nobody_else_is_asked": [
        (bugs.FollowsRedirects, "connections to the other place: expected 0, found 1"),
    ],
    "test_every_text_of_a_conversation_is_sent_or_warned_about": [
        (bugs.DropsSystemMessages, "a system message: not sent, and no warning: .*'You are a harbour.'"),
    ],
    "test_images_audio_and_files_are_sent_or_warned_about": [
        (bugs.DropsImagesOfTools, "an image in the result of a tool: not sent, and no warning"),
    ],
    "test_a_tool_choice_is_sent_or_warned_about": [
        (bugs.DropsToolChoice, "tool_choice 'none': sent, refused or warned about: expected True"),
    ],
    "test_signed_thinking_returns_byte_for_byte_to_who_made_it": [
        (bugs.TouchesSignatures, "thinking: signatures that did not return: .*'c2lnbmVk"),
    ],
    "test_signed_thinking_goes_to_nobody_else": [
        (bugs.SendsThinkingToAnybody, "thinking: thinking sent to another model: expected .., found"),
        (bugs.DropsThinkingInSilence, "thinking sent to another model: warnings: expected some"),
    ],
}


@pytest.mark.parametrize(
    ("check", "bug", "says"),
    [
        pytest.param(check, bug, says, id=f"{check}-{number}")
        for check, plants in PLANTS.items()
        for number, (bug, says) in enumerate(plants)
    ],
)
def test_a_planted_bug_turns_its_check_red(check: str, bug: type[ReferenceProvider], says: str) -> None:
    limit_s = 1.0 if "limit_s" in says else 600.0 if SOAK else 30.0
    if SOAK:  # every reply is tried, and another one may be the first to show it
        says = re.sub(r"^(text|unicode_split), ", r"\\w+, ", says)
    with pytest.raises((AssertionError, GnomonError, TimeoutError), match=f"(?s){says}"):
        RULES.run(getattr(ReferenceSuite(bug), check), limit_s)


def test_every_check_has_a_planted_bug() -> None:
    checks = [name for name in CHECKS if name.startswith("test_")]
    assert sorted({*PLANTS, "test_every_required_reply_is_there_or_said_to_be_impossible"}) == checks
