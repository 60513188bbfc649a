"""The course of a thread: turned back, brought back, copied, corrected, looked into.

Nothing here destroys anything: what is cut off stays in the database as a branch.
"""

from local_agent.memory.branches import Branch
from local_agent.memory.chain import Step, Turn
from local_agent.timeline.course import Forked, Moved, Timeline

__all__ = ["Branch", "Forked", "Moved", "Step", "Timeline", "Turn"]
