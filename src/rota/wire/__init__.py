"""The JSON forms that the API and its clients share, and their conversion to and from the core's values.

A form is a msgspec Struct; the published description of the API is generated from these and from nothing else. Ids are
thirteen characters of text, moments RFC 3339 in UTC, durations seconds (or, on the way in, text such as ``"5m"``).
Payloads and results pass through as they are: raw JSON, never revived, so that big integers stay exact.

This room refuses to know HTTP: neither routes nor status codes, only what is said.
"""
