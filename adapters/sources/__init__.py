"""Sources of changes, and the packages that they share: landing folders, file formats, messages, rows and staging.
"""
