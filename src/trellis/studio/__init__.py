"""The studio: a page on this machine where recordings are aligned, checked, corrected and learned from.

``trellis align studio MODEL recordings/`` serves it to the loopback interface only. Its parts, from the
bottom up:

* ``edits``: what one can do to an alignment, as pure functions; ``edit_history``: undo and redo as splices;
* ``folder``: the recordings and their files, none outside the folder; ``journal``: edits that survive ``kill
  -9``;
* ``sound_pieces`` and ``picture_tiles``: sound and pictures by pieces, so that an hour scrolls like a second;
* ``workspace``: all recordings and their states; ``background``: aligning and learning while people work;
* ``security``, ``web`` and ``server``: who may ask, what can be asked, and how it ends.

It needs the extra ``studio`` (``pip install 'trellis-learn[studio]'``).
"""
