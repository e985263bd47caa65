"""`octavo bench`: measurements that repeat from their seed."""
