"""For the scripts of ranks."""


def raises(kind, text, function):
    """The message of the error of `function`, which must have `text` in it."""
    try:
        function()
    except kind as error:
        assert text in str(error), error
        return str(error)
    raise AssertionError(f"nothing was raised, expected: {text}")
