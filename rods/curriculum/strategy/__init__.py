"""Ways to decide, beside the paper's own, so that its claims can be tested against others. Each is pure.

- `selection`: which tasks become seeds (`boundary.selection`).
- `depth`: how deep variants shall be, relative to their seeds (`boundary.depth_shift`).
- `sampling`: which active tasks an epoch visits, and how often (`buffer.sampling`).
- `injection`: when waiting variants become active (`buffer.injection`).
- `review`: when retired tasks are looked at again (`buffer.review_epochs`).
"""
