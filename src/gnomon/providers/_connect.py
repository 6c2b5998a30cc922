"""Moved to `gnomon._connect`."""

from gnomon._connect import Account as Account
from gnomon._connect import connected as connected
from gnomon._connect import found_key as found_key
from gnomon._connect import limits_from as limits_from
