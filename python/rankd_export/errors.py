"""The one exception of this package."""


class BundleError(ValueError):
    """A model that cannot be exported, or a bundle that cannot be read; the message gives got and want."""
