"""JSON request and response types shared by the API and its clients, and their conversion to and from core values.

A form is a msgspec Struct; the OpenAPI document is generated from the forms. `x_form` converts a core value to a form,
`x_of` converts a form to a core value. Ids are thirteen characters of text, times RFC 3339 in UTC, durations seconds
(in requests also text such as ``"5m"``). Payloads and results pass through as raw JSON: big integers stay exact.
This package does not know HTTP: no routes, no status codes.
"""
