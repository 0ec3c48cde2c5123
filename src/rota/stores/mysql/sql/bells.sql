-- Give how the bells of other writers stand, in a few numbers: whatever is rung, or forgotten, changes them.
SELECT CONCAT_WS(':', COUNT(*), SUM(number), SUM(at)) FROM bell WHERE origin NOT LIKE %(ours)s
