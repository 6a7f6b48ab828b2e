"""Operations on whole Hudi tables."""
