"""Evidence made to order: run folders of any size whose findings are known beforehand."""
