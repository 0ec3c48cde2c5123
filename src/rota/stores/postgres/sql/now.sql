-- Tell the server's time.
SELECT {clock}
