"""Threads taken out to a file and brought in from one.

    database -> collect -> Document -> (cut, redact) -> json_form, markdown      taken out
    file -> read (json_form, chat_lists) -> Document -> rows -> database         brought in

A document is a thread as a value: every checkpoint at which something changed, on every course of
it. What a person allowed is not part of it, nor the journal of what ran: both count on the machine
where they were made, and a file could claim anything.
"""
